"""The gates of providers: the slots of a rate, a circuit breaker, and pauses. They can only delay.

First the rules of a gate, on which no status of a job depends. Then the gate that passes runs and
lookups through them, for all threads of a process. If the gate cannot be read, the last known
pauses and circuits apply, and a low local rate.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final

from oncely.contracts.job import AnyJob
from oncely.core.errors import GateClosedError, OncelyError
from oncely.core.job_row import operator_name
from oncely.core.profiles import EndpointGroup
from oncely.core.schedule import Clock
from oncely.core.surroundings import Hold
from oncely.core.text import format_minute
from oncely.plugins.provider import AnyProvider, GatedResponse, ProviderSettings, RequestGate

if TYPE_CHECKING:
    from oncely.gates.table import GateTable

_log = logging.getLogger(__name__)
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
# A pause must be effective within 10 seconds.
SNAPSHOT_AGE: Final = timedelta(seconds=5)
# After a failed read. A table that does not respond must not slow down every job.
RETRY_AFTER: Final = timedelta(seconds=10)
# A process that cannot read the gate uses a tenth of the rate: others may do the same.
LOCAL_SLOWDOWN: Final = 10
_NO_SETTINGS: Final = ProviderSettings()
_MAX_RESULTS: Final = 50


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


@dataclass
class LocalGate:
    """What one process knows of one gate: its leased slots, and the last results."""

    # Reentrant, because the processes of a simulation share a thread.
    lock: threading.RLock = field(default_factory=threading.RLock)
    slots: deque[Slot] = field(default_factory=deque)
    # The slots of the last lease. A new process expects a whole batch.
    leased: int = MAX_LEASE
    fallback_at: datetime | None = None  # the next slot of its own, without the table
    results: deque[tuple[datetime, bool]] = field(
        default_factory=lambda: deque(maxlen=_MAX_RESULTS)
    )

    def lease_size(self, now: datetime) -> int:
        """How many slots to lease, after those that passed were dropped.

        The messages of a batch come together, so one lease should have the slots of all. What the
        last one had too much is left out, and if that was nothing, the next has twice as many.
        """
        unused = 0
        while self.slots and self.slots[0].ends <= now:
            self.slots.popleft()
            unused += 1
        return max(self.leased - unused, 1) if unused else min(self.leased * 2, MAX_LEASE)


@dataclass
class GatePass:
    """A run or a lookup inside the gate."""

    group: EndpointGroup
    # The endpoints that its slot was used for, by group.
    used: dict[EndpointGroup, set[str]] = field(default_factory=dict)
    gate: str = ""
    slot: Slot | None = None
    probes: bool = False  # its first response closes the circuit, unless it is a failure
    is_ungated: bool = False


_GATE_PASS: Final[ContextVar[GatePass | None]] = ContextVar("gate_pass", default=None)


@dataclass(eq=False, kw_only=True)
class Gate:
    """The gates of all providers. It can only delay."""

    table: "GateTable"
    clock: Clock
    settings: Mapping[str, ProviderSettings] = field(default_factory=dict)  # of the stage
    sleep: Callable[[float], None] = time.sleep
    snapshot_age: timedelta = SNAPSHOT_AGE
    on_error: Callable[[Exception], None] = lambda error: _log.warning("gate", exc_info=error)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _local: dict[str, LocalGate] = field(default_factory=dict)
    _snapshot: GateSnapshot = field(default_factory=GateSnapshot)
    _next_read: datetime | None = None

    def enter(
        self,
        contract: AnyJob,
        group: EndpointGroup = EndpointGroup.EFFECTS,
        *,
        deadline: datetime | None = None,
    ) -> Hold | None:
        """Wait for a slot. Returns why there is none, if the job must wait elsewhere."""
        _GATE_PASS.set(None)
        if (hold := self.hold(contract, group)) is not None:
            return hold
        plugin, now = plugin_of(contract), self.clock.now()
        gate_pass = GatePass(group, used={group: set()})
        if plugin is not None:
            gate_pass.gate = gate = gate_name(plugin.name, group)
            if self._snapshot.state(gate).circuit(now) is Circuit.HALF_OPEN:
                gate_pass.probes = self._probe(gate, contract, plugin)
                _GATE_PASS.set(gate_pass)
                if (hold := self.hold(contract, group)) is not None:
                    return hold
            latest = now + MAX_SLOT_WAIT
            if deadline is not None:
                can_wait_until = deadline - contract.policy.max_duration
                latest = min(latest, max(can_wait_until, now + MIN_SLOT_WAIT))
            slot = self.take_slot(gate, self.rate(plugin, group), latest)
            if isinstance(slot, Hold):
                return slot
            gate_pass.slot = slot
        _GATE_PASS.set(gate_pass)
        return None

    def give_back(self) -> None:
        """Return the slot of a run that sends nothing. Another thread can use it."""
        gate_pass = _GATE_PASS.get()
        if gate_pass and gate_pass.slot and not any(gate_pass.used.values()):
            self._of(gate_pass.gate).slots.appendleft(gate_pass.slot)
        _GATE_PASS.set(None)

    def hold(self, contract: AnyJob, group: EndpointGroup = EndpointGroup.EFFECTS) -> Hold | None:
        """Why a request must not be sent now. Called right before each effect as well."""
        plugin, now = plugin_of(contract), self.clock.now()
        snapshot = self.snapshot(now)
        # Lookups are never paused.
        targets = _pause_targets(contract) if group is EndpointGroup.EFFECTS else ()
        if (pause := snapshot.pause_of(targets)) is not None and (by := pause.current):
            by_whom = f"since {format_minute(by.at)} by {operator_name(by.actor)}"
            reason = f"{pause.target} is paused {by_whom}: {by.reason}"
            return Hold(reason=reason, until=now, is_pause=True)
        gate_pass = _GATE_PASS.get()
        if plugin is None or (gate_pass is not None and gate_pass.probes):
            return None
        return snapshot.state(gate_name(plugin.name, group)).hold(plugin.name, now)

    def held_time(self, contract: AnyJob, *, since: datetime, until: datetime) -> timedelta:
        """How long the jobs of this contract were held between two times."""
        plugin, snapshot = plugin_of(contract), self.snapshot(self.clock.now())
        gates = [gate_name(plugin.name, group) for group in EndpointGroup] if plugin else []
        return snapshot.held_time(_pause_targets(contract), gates, since=since, now=until)

    def paused_job_types(self, contracts: Iterable[type[AnyJob]]) -> frozenset[str]:
        """The job types whose jobs are all held."""
        snapshot = self.snapshot(self.clock.now())
        paused = (one for one in contracts if snapshot.pause_of(_pause_targets(one)) is not None)
        return frozenset(one.job_type for one in paused)

    def snapshot(self, now: datetime) -> GateSnapshot:
        """All gates and pauses, at most a few seconds old."""
        with self._lock:
            if self._next_read is not None and now < self._next_read:
                return self._snapshot
            try:
                self._snapshot = self.table.read()
                self._next_read = now + self.snapshot_age
            except OncelyError as error:
                self.on_error(error)
                self._next_read = now + RETRY_AFTER
            return self._snapshot

    def requests(self, plugin: AnyProvider) -> "ProviderRequests":
        """What the client of a provider uses."""
        return ProviderRequests(self, plugin)

    def rate(self, plugin: AnyProvider, group: EndpointGroup) -> float | None:
        """The rate of the stage, or else of the provider's profile. Returns None if unlimited."""
        return self.settings.get(plugin.name, _NO_SETTINGS).rate(group, plugin.profile)

    def _of(self, gate: str) -> LocalGate:
        with self._lock:
            return self._local.setdefault(gate, LocalGate())

    # Slots.

    def take_slot(self, gate: str, rate: float | None, latest: datetime) -> Slot | Hold | None:
        """Sleep until the first slot that has not passed. Returns None if there is no limit."""
        if rate is None:
            return None
        local = self._of(gate)
        while True:
            with local.lock:
                size = local.lease_size(self.clock.now())
                if not local.slots:
                    local.slots.extend(self._lease(gate, rate, size, latest))
                if not local.slots or local.slots[0].begins > latest:
                    until = local.slots[0].begins if local.slots else latest
                    return Hold(reason=f"the rate limit of {gate} is used up", until=until)
                slot = local.slots.popleft()
            if (wait := (slot.begins - self.clock.now()).total_seconds()) > 0:
                self.sleep(wait)
            # After a freeze the slot has passed, and using it could be a burst.
            if self.clock.now() < slot.ends:
                return slot

    def _lease(self, gate: str, rate: float, size: int, latest: datetime) -> tuple[Slot, ...]:
        """Lease the slots of this batch. Returns none if there are none in time."""
        local, now = self._of(gate), self.clock.now()
        interval = timedelta(seconds=1 / rate)
        # At a low rate most slots of a batch would come too late for it.
        local.leased = min(size, 1 + max(latest - now, timedelta(0)) // interval)
        try:
            return self.table.lease(
                gate, count=local.leased, interval=interval, now=now, latest=latest
            )
        except OncelyError as error:
            self.on_error(error)
            begins = max(local.fallback_at or now, now + SLOT_LEAD)
            local.fallback_at = begins + interval * LOCAL_SLOWDOWN
            return slots_from(begins, interval * LOCAL_SLOWDOWN, 1)

    # The circuit.

    def _probe(self, gate: str, contract: AnyJob, plugin: AnyProvider) -> bool:
        """Read once from the provider, in one process. Returns whether a run must do it."""
        if not self._change(gate, take_probe):
            return False
        _GATE_PASS.set(GatePass(EndpointGroup.LOOKUPS, is_ungated=True))
        try:
            responds = plugin.responds(contract.tools.provider(plugin))
        except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
            self.on_error(error)
            responds = False
        if responds:
            self._close(gate)
        return responds is None

    def _close(self, gate: str) -> None:
        self._change(gate, close_circuit)
        self._of(gate).results.clear()

    def record(self, gate: str, gate_pass: GatePass, *, failed: bool) -> None:
        """Count a response of the provider. Many failures open the circuit."""
        if gate_pass.probes:
            gate_pass.probes = False
            if not failed:
                self._close(gate_pass.gate)
            return
        now, results = self.clock.now(), self._of(gate).results
        results.append((now, failed))
        if failed and must_open(tuple(results), now):
            self._change(gate, open_circuit)

    def _change(self, gate: str, rule: Callable[[GateState, datetime], GateState | None]) -> bool:
        """Change a circuit. Returns False if it changed already, or cannot be changed now."""
        now = self.clock.now()
        if (after := rule(self.snapshot(now).state(gate), now)) is None:
            return False
        try:
            changed = self.table.change_circuit(gate, after)
        except OncelyError as error:
            self.on_error(error)
            return False
        self._next_read = None  # it is another one now, of this process or of the first
        return changed


@dataclass(frozen=True)
class ProviderRequests(RequestGate):
    """The gate of one provider, for its client."""

    gate: Gate
    plugin: AnyProvider

    @contextmanager
    def request(
        self, endpoint: str = "", *, group: EndpointGroup | None = None
    ) -> Iterator[GatedResponse]:
        """Take a slot, unless that of the run allows a request to this endpoint."""
        # The admin page has none, because it is outside of a run or a sweep.
        gate_pass = _GATE_PASS.get() or GatePass(EndpointGroup.LOOKUPS)
        response = GatedResponse()
        if gate_pass.is_ungated:
            yield response
            return
        group = group or gate_pass.group
        name = gate_name(self.plugin.name, group)
        used = gate_pass.used.get(group, {endpoint})
        if endpoint in used:
            now = self.gate.clock.now()
            in_effect = gate_pass.group is EndpointGroup.EFFECTS
            latest = now + (MAX_WAIT_IN_EFFECT if in_effect else MAX_SLOT_WAIT)
            state = self.gate.snapshot(now).state(name)
            slot = state.hold(self.plugin.name, now) or self.gate.take_slot(
                name, self.gate.rate(self.plugin, group), latest
            )
            if isinstance(slot, Hold):
                raise GateClosedError(slot.reason)
            used = set()
        gate_pass.used[group] = used | {endpoint}
        try:
            yield response
        finally:
            self.gate.record(name, gate_pass, failed=response.failed)


def plugin_of(contract: AnyJob | type[AnyJob]) -> AnyProvider | None:
    """The provider of a job. Before its precheck, that of a type with only one."""
    plugins = contract.all_providers()
    name = None if isinstance(contract, type) else contract.provider_name
    if len(plugins) == 1:
        return plugins[0]
    return next((one for one in plugins if one.name == name), None)


def _pause_targets(contract: AnyJob | type[AnyJob]) -> tuple[str, ...]:
    """What an operator may have paused: its job type, its queue, or its provider."""
    plugin = plugin_of(contract)
    provider = () if plugin is None else (f"{PROVIDER_PREFIX}{plugin.name}",)
    return (contract.job_type, f"{QUEUE_PREFIX}{contract.queue}", *provider)
