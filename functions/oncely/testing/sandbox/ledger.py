"""The ledgers: every request, and what really happened at each provider."""

import re
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from oncely.testing.sandbox.http_messages import SandboxRequest

# The job key in an idempotency key: between the deployment and the step with its number.
_JOB_KEY: Final = re.compile(r"(?:^|:)([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+:.+):[a-z_]+:\d+$")


@dataclass(frozen=True)
class RecordedRequest:
    """A received request, whatever its outcome."""

    method: str
    path: str
    idempotency_key: str | None
    params: Mapping[str, Any]
    at: datetime
    request_id: str
    fault: str | None


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
        self._requests: list[RecordedRequest] = []

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        with self._lock:
            return tuple(self._requests)

    @property
    def paths(self) -> Counter[str]:
        """The number of requests by method and path, such as `GET /v1/refunds`."""
        return Counter(f"{one.method} {one.path}" for one in self.requests)

    def record(self, request: SandboxRequest, *, fault: str | None) -> None:
        entry = RecordedRequest(
            method=request.method,
            path=request.path,
            idempotency_key=request.idempotency_key,
            params=request.params,
            at=request.at,
            request_id=request.request_id,
            fault=fault,
        )
        with self._lock:
            self._requests.append(entry)

    def to_dict(self) -> dict[str, Any]:
        return {"requests": [asdict(one) for one in self.requests], "paths": dict(self.paths)}


class ProviderLedger(ABC):
    """What really happened at one provider. A read followed by a write must hold `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    @abstractmethod
    def effects(self) -> Iterable[RecordedEffect]:
        """The effects of jobs, for reports and verdicts."""
