"""How much goes wrong in the demo: what providers do, and how often workers are killed."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from oncely.testing.sandbox import FaultKind, FaultSet

_CREATE: Final = {"method": "POST", "path": "/v1/payment_intents"}
_CONFIRM: Final = {"method": "POST", "path": "/v1/payment_intents/*/confirm"}
_READ: Final = {"method": "GET", "path": "/v1/payment_intents/*"}
_PUSH: Final = {"method": "P*", "path": "/crm/*"}
_FETCH: Final = {"method": "GET", "path": "/crm/*"}
_MAIL: Final = {"method": "POST", "path": "/v2/email/*"}

# Which answers go wrong, and how many of a hundred; the first that applies hits.
_RATES: Final[tuple[tuple[FaultKind, Mapping[str, str], float], ...]] = (
    (FaultKind.ACCEPT_THEN_DROP, _CONFIRM, 4),
    (FaultKind.ERROR_AFTER, _CONFIRM, 2),
    (FaultKind.ERROR_BEFORE, _CONFIRM, 1),
    (FaultKind.GARBLED, _CONFIRM, 1),
    (FaultKind.TRUNCATED, _CONFIRM, 1),
    (FaultKind.SLOW, _CONFIRM, 2),
    (FaultKind.CONFLICT, _CONFIRM, 1),
    (FaultKind.RATE_LIMIT, _CREATE, 2),
    (FaultKind.ACCEPT_THEN_DROP, _CREATE, 1),
    (FaultKind.OUTAGE, _READ, 20),  # the first look after an error is often blind as well
    (FaultKind.ACCEPT_THEN_DROP, _PUSH, 5),
    (FaultKind.RATE_LIMIT, _PUSH, 2),
    (FaultKind.OUTAGE, _FETCH, 3),
    (FaultKind.ACCEPT_THEN_DROP, _MAIL, 1),
    (FaultKind.RATE_LIMIT, _MAIL, 2),
)
_A_HUNDRED: Final = 100
_REQUESTS_APART: Final = 50  # requests
_ENDLESS_SECONDS: Final = 600.0  # seconds; far beyond the timeout of any function


class FaultLevel(StrEnum):
    """How much goes wrong."""

    NONE = "none"
    SOME = "some"
    HEAVY = "heavy"


@dataclass(frozen=True)
class FaultPlan:
    """One level, spelled out."""

    rate_factor: float  # on the rates above
    hanging_responses: int  # answers that never end: the function is killed at its timeout
    silent_responses: int  # answers that never come
    kill_every: int  # requests to a provider, roughly; 0: never

    def apply(self, faults: FaultSet) -> None:
        """Put the providers' part in force."""
        # Apart from each other: each of these holds a worker, and all its messages, for a minute.
        for n in range(self.hanging_responses):
            endless: dict[str, Any] = {
                "skip": _REQUESTS_APART * n + 15,
                "seconds": _ENDLESS_SECONDS,
                **_CONFIRM,
            }
            faults.add(FaultKind.ACCEPT_THEN_TRICKLE, **endless)
        for n in range(self.silent_responses):
            faults.add(FaultKind.ACCEPT_THEN_HANG, skip=_REQUESTS_APART * n + 5, **_CONFIRM)
        for kind, pattern, percent in _RATES:
            if rate := percent * self.rate_factor / _A_HUNDRED:
                matching: dict[str, Any] = dict(pattern)
                faults.add(kind, times=None, rate=min(rate, 0.5), **matching)

    def kill_intervals(self, seed: int) -> Iterator[int]:
        """After how many more requests a worker dies, each time; the same for the same seed."""
        draw = random.Random(seed)  # noqa: S311  # repeatable, not secret
        while self.kill_every:
            yield draw.randint(self.kill_every // 2, self.kill_every * 3 // 2)


FAULT_PLANS: Final = {
    FaultLevel.NONE: FaultPlan(
        rate_factor=0, hanging_responses=0, silent_responses=0, kill_every=0
    ),
    FaultLevel.SOME: FaultPlan(
        rate_factor=1, hanging_responses=2, silent_responses=2, kill_every=60
    ),
    FaultLevel.HEAVY: FaultPlan(
        rate_factor=2.5, hanging_responses=3, silent_responses=10, kill_every=50
    ),
}
