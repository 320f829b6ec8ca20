"""What can go wrong between a caller and a provider, on demand."""

import random
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from oncely.testing.sandbox.http_messages import SandboxHandler, SandboxRequest, SandboxResponse


class FaultKind(StrEnum):
    """What happens instead of a plain answer."""

    # Performed; the caller cannot know.
    ACCEPT_THEN_HANG = "accept_then_hang"  # no answer until released, or for `seconds`
    ACCEPT_THEN_TRICKLE = "accept_then_trickle"  # a byte at a time, so that no read times out
    ACCEPT_THEN_DROP = "accept_then_drop"  # the connection is reset
    ERROR_AFTER = "error_after"  # 500, and the key replays the 500
    GARBLED = "garbled"  # 200, and the body is not JSON
    TRUNCATED = "truncated"  # 200, and half of the body
    SLOW = "slow"  # waits `seconds`, then performs and answers
    # Not performed.
    ERROR_BEFORE = "error_before"  # 500, and the key replays the 500
    RATE_LIMIT = "rate_limit"  # 429, not kept under the key
    UNAUTHORIZED = "unauthorized"  # 401, not kept
    CONFLICT = "conflict"  # 409, not kept
    OUTAGE = "outage"  # 503, not kept
    DROP_BEFORE = "drop_before"  # the connection is reset

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(f"there is no kind {value!r}; there are {', '.join(cls)}")


REFUSAL_STATUSES: Final = {
    FaultKind.RATE_LIMIT: 429,
    FaultKind.UNAUTHORIZED: 401,
    FaultKind.CONFLICT: 409,
    FaultKind.OUTAGE: 503,
}
# A hang outlasts any client's patience and still ends before a forgotten test does.
HANG_SECONDS: Final = 60.0
SLOW_SECONDS: Final = 1.0


@dataclass(eq=False)
class SandboxFault:
    """One thing that goes wrong, and for which requests."""

    kind: FaultKind
    method: str = "*"
    path: str = "*"  # a shell pattern: /v1/payment_intents/*/confirm
    key_contains: str = ""
    skip: int = 0  # this many matching requests pass first
    times: int | None = 1  # None: every time
    rate: float = 1.0  # the share of matching requests that are hit
    seconds: float | None = None
    hits: int = 0

    def __post_init__(self) -> None:
        """Give every fault its own latch: releasing one frees only its own requests."""
        self._released = threading.Event()

    def matches(self, request: SandboxRequest) -> bool:
        """Say whether the request is one that this fault is meant for."""
        return (
            fnmatchcase(request.method, self.method.upper())
            and fnmatchcase(request.path, self.path)
            and self.key_contains in (request.idempotency_key or "")
        )

    def hang(self, seconds: float | None = None) -> bool:
        """Wait until released or until the time is over; tells whether it was released."""
        return self._released.wait(seconds or self.delay_seconds)

    @property
    def delay_seconds(self) -> float:
        """How many seconds an answer is held back."""
        return HANG_SECONDS if self.seconds is None else self.seconds

    def release(self) -> None:
        """Let every request that hangs on this fault go on."""
        self._released.set()

    def wrap(
        self, execute: SandboxHandler, *, error: Callable[[], SandboxResponse]
    ) -> SandboxResponse:
        """Perform the request as this fault would have it."""
        match self.kind:
            case FaultKind.ERROR_BEFORE:
                return error()
            case FaultKind.ERROR_AFTER:
                execute()
                return error()
            case FaultKind.SLOW:
                self._released.wait(SLOW_SECONDS if self.seconds is None else self.seconds)
                return execute()
            case _:
                return execute()

    def to_dict(self) -> dict[str, Any]:
        """Describe it to another process."""
        return asdict(self)


class FaultSet:
    """The faults in force; the first that concerns a request hits it."""

    def __init__(self, *, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._faults: list[SandboxFault] = []
        self._deactivated: list[SandboxFault] = []  # some of them may still hold requests
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def add(self, kind: FaultKind | str, **options: Any) -> SandboxFault:  # noqa: ANN401 - Fault's own
        """Put a fault in force; the options are the fields of `Fault`."""
        fault = SandboxFault(FaultKind(kind), **options)
        with self._lock:
            self._faults.append(fault)
        return fault

    def next_for(self, request: SandboxRequest) -> SandboxFault | None:
        """Give the fault that hits this request, and count it."""
        with self._lock:
            return next((fault for fault in self._faults if self._hits(fault, request)), None)

    def deactivate(self) -> None:
        """Hit no further request; those that hang go on hanging."""
        with self._lock:
            self._deactivated += self._faults
            self._faults = []

    def clear(self) -> None:
        """End all faults and let go of every request that hangs."""
        self.deactivate()
        with self._lock:
            ended, self._deactivated = self._deactivated, []
        for fault in ended:
            fault.release()

    def to_dicts(self) -> list[dict[str, Any]]:
        """Describe them to another process."""
        with self._lock:
            return [fault.to_dict() for fault in self._faults]

    def _hits(self, fault: SandboxFault, request: SandboxRequest) -> bool:
        if not fault.matches(request):
            return False
        if fault.times is not None and fault.hits >= fault.times:
            return False
        if fault.skip > 0:
            fault.skip -= 1
            return False
        if self._random.random() >= fault.rate:
            return False
        fault.hits += 1
        return True
