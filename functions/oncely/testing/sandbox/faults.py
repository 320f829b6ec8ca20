"""Faults between a client and a provider."""

import random
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from oncely.testing.sandbox.http_messages import SandboxHandler, SandboxRequest, SandboxResponse


class FaultKind(StrEnum):
    """The kinds of faults."""

    # The request is executed, but the caller cannot know.
    ACCEPT_THEN_HANG = "accept_then_hang"  # no response until released, or for `seconds`
    ACCEPT_THEN_TRICKLE = "accept_then_trickle"  # a byte at a time, so that no read times out
    ACCEPT_THEN_DROP = "accept_then_drop"  # the connection is reset
    ERROR_AFTER = "error_after"  # 500, which the key replays
    GARBLED = "garbled"  # 200 with a body that is not JSON
    TRUNCATED = "truncated"  # 200 with half of the body
    SLOW = "slow"  # waits `seconds`, then executes and responds
    ARRIVES_LATE = "arrives_late"  # the connection is reset; executed after `seconds`
    # The request is not executed.
    ERROR_BEFORE = "error_before"  # 500, which the key replays
    ERROR_UNSTORED = "error_unstored"  # 500, not replayed
    RATE_LIMIT = "rate_limit"  # 429, not replayed by the key
    UNAUTHORIZED = "unauthorized"  # 401, not replayed
    CONFLICT = "conflict"  # 409, not replayed
    OUTAGE = "outage"  # 503, not replayed
    DROP_BEFORE = "drop_before"  # the connection is reset

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(f"unknown kind {value!r}; use one of {', '.join(cls)}")


REFUSAL_STATUSES: Final = {
    FaultKind.RATE_LIMIT: 429,
    FaultKind.UNAUTHORIZED: 401,
    FaultKind.CONFLICT: 409,
    FaultKind.ERROR_UNSTORED: 500,
    FaultKind.OUTAGE: 503,
}
# Longer than any client's timeout, and shorter than a test's.
HANG_SECONDS: Final = 60.0
SLOW_SECONDS: Final = 1.0


@dataclass(eq=False)
class SandboxFault:
    """A fault, and the requests that it hits."""

    kind: FaultKind
    method: str = "*"
    path: str = "*"  # a shell pattern such as /v1/payment_intents/*/confirm
    key_contains: str = ""
    skip: int = 0  # number of matching requests to let pass first
    times: int | None = 1  # None means every time
    rate: float = 1.0  # share of matching requests to hit
    seconds: float | None = None
    hits: int = 0

    def __post_init__(self) -> None:
        """Create the fault's own latch, which releases only its own requests."""
        self._released = threading.Event()

    def matches(self, request: SandboxRequest) -> bool:
        return (
            fnmatchcase(request.method, self.method.upper())
            and fnmatchcase(request.path, self.path)
            and self.key_contains in (request.idempotency_key or "")
        )

    def hang(self, seconds: float | None = None) -> bool:
        """Wait until released or timed out. Returns True if released."""
        return self._released.wait(seconds or self.delay_seconds)

    @property
    def delay_seconds(self) -> float:
        return HANG_SECONDS if self.seconds is None else self.seconds

    def release(self) -> None:
        self._released.set()

    def wrap(
        self, execute: SandboxHandler, *, error: Callable[[], SandboxResponse]
    ) -> SandboxResponse:
        if self.kind is FaultKind.ERROR_BEFORE:
            return error()
        if self.kind is FaultKind.SLOW:
            self._released.wait(SLOW_SECONDS if self.seconds is None else self.seconds)
        response = execute()
        return error() if self.kind is FaultKind.ERROR_AFTER else response


class FaultSet:
    """The active faults. The first that applies hits a request."""

    def __init__(self, *, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._faults: list[SandboxFault] = []
        self._deactivated: list[SandboxFault] = []  # some may still delay requests
        self._random = random.Random(seed)  # noqa: S311  # repeatable, not secret

    def add(self, kind: FaultKind | str, **options: Any) -> SandboxFault:  # noqa: ANN401  # fields of SandboxFault
        fault = SandboxFault(FaultKind(kind), **options)
        with self._lock:
            self._faults.append(fault)
        return fault

    def next_for(self, request: SandboxRequest) -> SandboxFault | None:
        """Return the fault that hits this request, and count the hit."""
        with self._lock:
            return next((fault for fault in self._faults if self._hits(fault, request)), None)

    def deactivate(self) -> None:
        """Hit no further requests. Delayed ones stay delayed."""
        with self._lock:
            self._deactivated += self._faults
            self._faults = []

    def clear(self) -> None:
        self.deactivate()
        with self._lock:
            ended, self._deactivated = self._deactivated, []
        for fault in ended:
            fault.release()

    def to_dicts(self) -> list[dict[str, Any]]:
        with self._lock:
            return [asdict(fault) for fault in self._faults]

    def _hits(self, fault: SandboxFault, request: SandboxRequest) -> bool:
        spent = fault.times is not None and fault.hits >= fault.times
        if spent or not fault.matches(request):
            return False
        if fault.skip > 0:
            fault.skip -= 1
            return False
        if self._random.random() >= fault.rate:
            return False
        fault.hits += 1
        return True
