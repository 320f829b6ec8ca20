"""The rules of a gate: the slots of its rate, its circuit breaker, and pauses.

A gate can only delay. No status of a job depends on it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import Final

from oncely.core.profiles import EndpointGroup
from oncely.core.surroundings import Hold
from oncely.core.text import format_minute

# Leasing slots takes this long, so the first slot of an idle gate is later than that.
SLOT_LEAD: Final = timedelta(milliseconds=20)
# A job waits this long for its slot. If more jobs are ahead of it, its message goes back.
MAX_SLOT_WAIT: Final = timedelta(seconds=20)
# A job waits this long in any case. A call checks again whether there is time for it.
MIN_SLOT_WAIT: Final = timedelta(seconds=1)
# A request on the way to an effect waits this long. The pause was checked before, in a snapshot of
# at most 5 seconds, and must be effective within 10.
MAX_WAIT_IN_EFFECT: Final = timedelta(seconds=4)
# The slots of one lease: the messages of a batch. More slots than threads would pass unused.
MAX_LEASE: Final = 10
# A process needs this long to wake up. Up to 200 a second, the time between two slots is longer.
MIN_SLOT_LENGTH: Final = timedelta(milliseconds=5)
# AWS refuses requests from a clock that is off by more. A time that lies farther ahead than the
# rules allow was written by hand or by mistake, and would hold a provider for as long.
MAX_CLOCK_ERROR: Final = timedelta(minutes=5)
# Of the last results of a process within this time, so many failures open the circuit.
FAILURE_WINDOW: Final = timedelta(seconds=30)
MIN_FAILURES: Final = 5
MIN_FAILURE_SHARE: Final = 0.5
# An open circuit is probed after this time.
FIRST_PROBE_AFTER: Final = timedelta(seconds=10)
# Longer than a request may take. After this, a probe failed or its process died: the next may come.
PROBE_LEASE: Final = timedelta(seconds=30)
# What an age still needs: jobs live for a day, and more only while they are held.
MAX_PERIODS: Final = 50
QUEUE_PREFIX: Final = "queue:"
PROVIDER_PREFIX: Final = "provider:"


def gate_name(provider: str, group: EndpointGroup) -> str:
    """The name of a gate, which is the key of its item."""
    return f"{provider}:{group}"


@dataclass(frozen=True)
class Slot:
    """A time in which one request may be sent.

    Each is used before the next one begins, so no second has more than the limit and one. A process
    that was frozen cannot use the slots of that time.
    """

    begins: datetime
    ends: datetime


def slots_from(first: datetime, interval: timedelta, count: int) -> tuple[Slot, ...]:
    """The slots of a lease, the earliest first."""
    begins = (first + interval * number for number in range(count))
    return tuple(Slot(at, at + max(interval, MIN_SLOT_LENGTH)) for at in begins)


def farthest_slot(interval: timedelta, now: datetime) -> datetime:
    """The furthest time that leases can reach."""
    return now + MAX_SLOT_WAIT + interval * MAX_LEASE + MAX_CLOCK_ERROR


@dataclass(frozen=True)
class Period:
    """A time in which jobs were held."""

    start: datetime
    end: datetime


class Circuit(Enum):
    """Whether a gate lets requests through."""

    CLOSED = auto()
    OPEN = auto()
    HALF_OPEN = auto()  # one request may probe


@dataclass(frozen=True, kw_only=True)
class GateState:
    """The circuit of a gate, as its item holds it."""

    opened_at: datetime | None = None  # None while the circuit is closed
    probe_at: datetime | None = None  # when the open circuit may be probed, by one process
    outages: tuple[Period, ...] = ()
    revision: object = field(default=None, compare=False)  # what a write expects, as it was read

    def circuit(self, now: datetime) -> Circuit:
        """Whether requests may be sent now."""
        if self.opened_at is None:
            return Circuit.CLOSED
        if self.probe_at is not None and now < self.probe_at <= now + PROBE_LEASE + MAX_CLOCK_ERROR:
            return Circuit.OPEN
        return Circuit.HALF_OPEN

    def hold(self, provider: str, now: datetime) -> Hold | None:
        """Why requests must not be sent now. Returns None if the circuit is not open."""
        if self.circuit(now) is not Circuit.OPEN or not self.opened_at or not self.probe_at:
            return None
        reason = f"{provider} has not responded since {format_minute(self.opened_at)}"
        return Hold(reason=reason, until=self.probe_at)


def must_open(results: Iterable[tuple[datetime, bool]], now: datetime) -> bool:
    """Whether the last results of a process, each with whether it failed, open the circuit."""
    recent = [failed for at, failed in results if now - at < FAILURE_WINDOW]
    failures = sum(recent)
    return failures >= MIN_FAILURES and failures >= MIN_FAILURE_SHARE * len(recent)


def open_circuit(state: GateState, now: datetime) -> GateState | None:
    """The gate with an open circuit. Returns None if it is open already."""
    if state.opened_at is not None:
        return None
    return replace(state, opened_at=now, probe_at=now + FIRST_PROBE_AFTER)


def take_probe(state: GateState, now: datetime) -> GateState | None:
    """The gate while one process probes. Returns None if it may not, or another one does."""
    if state.circuit(now) is not Circuit.HALF_OPEN:
        return None
    return replace(state, probe_at=now + PROBE_LEASE)


def close_circuit(state: GateState, now: datetime) -> GateState | None:
    """The gate with a closed circuit. Returns None if it is closed already."""
    if state.opened_at is None:
        return None
    outages = (*state.outages, Period(state.opened_at, now))[-MAX_PERIODS:]
    return replace(state, opened_at=None, probe_at=None, outages=outages)


class PauseAction(StrEnum):
    """What an operator did. The values are stored."""

    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, kw_only=True)
class PauseEntry:
    """One line of the audit trail of a pause."""

    at: datetime
    action: PauseAction
    actor: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A job type, queue or provider that was paused at least once."""

    target: str  # payment.charge, queue:payments or provider:acme
    entries: tuple[PauseEntry, ...] = ()  # the audit trail, the oldest first
    revision: object = field(default=None, compare=False)  # what a write expects, as it was read

    @property
    def current(self) -> PauseEntry | None:
        """The entry that pauses it now. Returns None if it was resumed."""
        last = self.entries[-1] if self.entries else None
        return last if last is not None and last.action is PauseAction.PAUSE else None

    def periods(self, now: datetime) -> tuple[Period, ...]:
        """When it was paused. The last period may still be open."""
        ends = [entry.at for entry in self.entries[1:]]
        return tuple(
            Period(entry.at, end)
            for entry, end in zip(self.entries, [*ends, now], strict=False)
            if entry.action is PauseAction.PAUSE
        )

    def without_reasons(self, is_personal: Callable[[str], bool]) -> "Pause":
        """The pause without the reasons that contain personal data."""
        kept = (replace(one, reason="") if is_personal(one.reason) else one for one in self.entries)
        return replace(self, entries=tuple(kept))

    def with_entry(self, entry: PauseEntry) -> "Pause":
        """The pause after an operator's action. No clock makes it end before it began."""
        at = max(one.at for one in (*self.entries[-1:], entry))
        return replace(self, entries=(*self.entries, replace(entry, at=at))[-MAX_PERIODS:])


@dataclass(frozen=True, kw_only=True)
class GateSnapshot:
    """All gates and pauses, as read at one time."""

    gates: Mapping[str, GateState] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)

    def state(self, gate: str) -> GateState:
        """The circuit of a gate."""
        return self.gates.get(gate, GateState())

    def pause_of(self, targets: Iterable[str]) -> Pause | None:
        """The pause of one of these targets. Returns None if there is none."""
        pauses = (self.pauses.get(target) for target in targets)
        return next((one for one in pauses if one is not None and one.current is not None), None)

    def held_time(
        self, targets: Iterable[str], gates: Iterable[str], *, since: datetime, now: datetime
    ) -> timedelta:
        """How long these targets and gates held jobs since then. That time is not age."""
        pauses = (self.pauses.get(target) for target in targets)
        periods = [period for one in pauses if one is not None for period in one.periods(now)]
        for state in map(self.state, gates):
            periods += state.outages
            if state.opened_at is not None:
                periods.append(Period(state.opened_at, now))
        return total_time(periods, since=since, until=now)


def total_time(periods: Iterable[Period], *, since: datetime, until: datetime) -> timedelta:
    """The time that the periods cover between two times. Periods that overlap count once."""
    total, covered = timedelta(0), since
    for period in sorted(periods, key=lambda one: one.start):
        start, end = max(period.start, covered), min(period.end, until)
        if end > start:
            total += end - start
            covered = end
    return total
