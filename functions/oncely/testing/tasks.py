"""The simulation's processes, tasks, and requests in flight."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

START: Final = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)


@dataclass(frozen=True)
class InFlightRequest:
    """A request that arrives after the worker's timeout."""

    at: datetime
    request_digest: int
    effect: Callable[[], object]


@dataclass(frozen=True)
class Task:
    """A task that may start: a delivery, a sweep, a publication."""

    label: str  # its name in a script: deliver, sweep, publish
    at: datetime
    begin: Callable[[], "SimulatedProcess"]
    optional: bool = False  # starts only if a script names it


@dataclass(eq=False)
class SimulatedProcess:
    """One run of a service, which can be delayed at every call it makes."""

    name: str
    perform: Callable[[], None]
    history: int = 0  # a digest of all results it has seen, which is its whole state
    call_counts: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    latest_call: str = ""  # its name
    latest_call_at: datetime = START  # the longest that a delay can last
    clock_read_at: datetime = START
    in_flight_until: datetime | None = None  # when its request in flight arrives at the latest
    killed_at: datetime | None = None  # by Lambda, at its timeout; None: it may resume after that
    body: Any = None  # its greenlet, once it has started
