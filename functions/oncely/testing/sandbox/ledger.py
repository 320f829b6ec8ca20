"""The ledgers: every request, and what really happened at each provider."""

import re
import threading
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from oncely.testing.sandbox.http_messages import SandboxRequest

T = TypeVar("T")
# The job key in an idempotency key: between the deployment and the step with its number.
_JOB_KEY: Final = re.compile(r"(?:^|:)([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+:.+):[a-z_]+:\d+$")


class EffectState(StrEnum):
    """How far an effect went."""

    DONE = "done"
    PENDING = "pending"  # the provider has not decided yet
    DECLINED = "declined"


@dataclass(frozen=True, kw_only=True)
class RecordedEffect:
    """An effect at a provider, as every provider's ledger reports it."""

    kind: str  # plural, as reports show it: "charges"
    key: str  # our id that may have one done effect of a kind: the job key, or an id in it
    reference: str  # the provider's id
    state: EffectState = EffectState.DONE
    amount: int | None = None
    currency: str | None = None
    provider: str = ""  # set by the sandbox


def job_key_in(idempotency_key: str) -> str:
    """Return the job key in an idempotency key, or all of it if it is a digest."""
    found = _JOB_KEY.search(idempotency_key)
    return found[1] if found else idempotency_key


class RequestLedger:
    """Every request to a sandbox, thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[SandboxRequest] = []

    @property
    def requests(self) -> tuple[SandboxRequest, ...]:
        with self._lock:
            return tuple(self._requests)

    @property
    def paths(self) -> Counter[str]:
        """The number of requests by method and path, such as `GET /v1/refunds`."""
        return Counter(f"{one.method} {one.path}" for one in self.requests)

    def record(self, request: SandboxRequest, *, fault: str | None) -> None:
        with self._lock:
            self._requests.append(replace(request, fault=fault))

    def to_dict(self) -> dict[str, Any]:
        shown = ("method", "path", "idempotency_key", "params", "at", "request_id", "fault")
        requests = [{name: getattr(one, name) for name in shown} for one in self.requests]
        return {"requests": requests, "paths": dict(self.paths)}


class ProviderLedger(ABC):
    """What really happened at one provider. A read followed by a write must hold `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._entries: defaultdict[type, dict[str, Any]] = defaultdict(dict)  # by their id

    def all(self, kind: type[T]) -> tuple[T, ...]:
        """All entries of a kind, oldest first."""
        with self.lock:
            return tuple(self._entries[kind].values())

    def find(self, kind: type[T], id_: str | None) -> T | None:
        """One entry. Returns None if there is none."""
        with self.lock:
            return self._entries[kind].get(id_ or "")

    def put(self, id_: str, entry: T) -> T | None:
        """Store an entry. Returns the one before."""
        with self.lock:
            held = self._entries[type(entry)]
            before, held[id_] = held.get(id_), entry
            return before

    @abstractmethod
    def effects(self) -> Iterable[RecordedEffect]:
        """The effects of jobs, for reports and verdicts."""
