"""Who acts, what may begin, and what is under way."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

START: Final = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)


@dataclass(frozen=True)
class InFlightRequest:
    """A request that arrives after we stopped waiting for its answer."""

    at: datetime
    request_digest: int  # a digest of what was asked
    effect: Callable[[], object]


@dataclass(frozen=True)
class Task:
    """Something that may begin: a delivery, a sweep, a publication."""

    label: str  # as a script names it: deliver, sweep, publish
    at: datetime
    begin: Callable[[], "SimulatedProcess"]
    optional: bool = False  # it happens only if a script says so


@dataclass(eq=False)
class SimulatedProcess:
    """One run of a service, which can be held up at every call it makes."""

    name: str
    perform: Callable[[], None]
    history: int = 0  # a digest of all it has seen: with its task, that is its whole state
    call_counts: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    latest_call_at: datetime = START  # it may be slow, but not slower than that
    clock_read_at: datetime = START  # at the clock
    in_flight_until: datetime | None = None  # a request that is under way arrives by then
    body: Any = None  # its greenlet, once it has begun
