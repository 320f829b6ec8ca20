"""What one process knows of a gate: leased slots, last results, and requests in flight."""

import threading
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from oncely.core.profiles import EndpointGroup
from oncely.core.surroundings import Hold
from oncely.core.text import format_minute
from oncely.gates.rules import (
    MAX_LEASE,
    Circuit,
    GateState,
    is_void,
)

_MAX_RESULTS: Final = 50
_SECOND: Final = timedelta(seconds=1)


@dataclass
class GatePass:
    """A run or a lookup inside the gate."""

    group: EndpointGroup
    slot: "LeasedSlot | None" = None
    # The endpoints that its slot was used for, by group.
    used: dict[EndpointGroup, set[str]] = field(default_factory=dict)
    probes: str | None = None  # the gate whose circuit its first response closes or keeps open
    is_ungated: bool = False


@dataclass(frozen=True)
class LeasedSlot:
    """A moment at which one request may be sent."""

    gate: str
    at: datetime
    interval: timedelta


@dataclass
class LocalGate:
    """What one process knows of one gate."""

    # Reentrant, because the processes of a simulation share a thread.
    lock: threading.RLock = field(default_factory=threading.RLock)
    slots: deque[LeasedSlot] = field(default_factory=deque)
    fallback: GateState = field(default_factory=GateState)
    in_flight: threading.Semaphore | None = None
    results: deque[tuple[datetime, bool]] = field(
        default_factory=lambda: deque(maxlen=_MAX_RESULTS)
    )

    # How many slots were taken in the current second, and in the last one that had any. The
    # messages of a batch come together, so one lease has the slots of all.
    second: datetime | None = None
    taken: int = MAX_LEASE  # a new process expects a whole batch
    taken_before: int = 0

    def count(self, now: datetime) -> None:
        """Count a slot."""
        if self.second is None or now - self.second >= _SECOND:
            self.second, self.taken_before, self.taken = now, self.taken, 0
        self.taken += 1

    def drop_passed_slots(self, now: datetime) -> None:
        """Drop the slots that are void."""
        while self.slots and is_void(self.slots[0].at, self.slots[0].interval, now):
            self.slots.popleft()

    def expected(self) -> int:
        """How many slots this process needs now, this one included."""
        return max(self.taken_before - self.taken + 1, 1)


GATE_PASS: Final[ContextVar[GatePass | None]] = ContextVar("gate_pass", default=None)


def open_circuit_hold(provider: str, state: GateState, now: datetime) -> Hold | None:
    """Why requests must not be sent now. Returns None if the circuit is not open."""
    if state.circuit(now) is not Circuit.OPEN or not state.opened_at or not state.probe_at:
        return None
    reason = f"{provider} has not responded since {format_minute(state.opened_at)}"
    return Hold(reason=reason, until=state.probe_at)
