"""Passes runs and lookups through their provider's gate, for all threads of a process.

If the gate cannot be read, the last known pauses and circuits apply, and a low local rate.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from oncely.contracts.contract import AnyContract
from oncely.core.actors import operator_name
from oncely.core.errors import GateClosedError, OncelyError
from oncely.core.job_row import JobRow
from oncely.core.profiles import EndpointGroup, RateLimit, RetryPolicy
from oncely.core.schedule import Clock
from oncely.core.surroundings import Hold
from oncely.core.text import format_minute
from oncely.gates.local_gate import (
    GATE_PASS,
    GatePass,
    LeasedSlot,
    LocalGate,
    open_circuit_hold,
)
from oncely.gates.rules import (
    MAX_LEASE,
    MAX_SLOT_WAIT,
    MAX_WAIT_IN_EFFECT,
    MIN_SLOT_WAIT,
    Circuit,
    GateSnapshot,
    GateState,
    Passage,
    after_failed_probe,
    close_circuit,
    gate_name,
    is_void,
    lease_slots,
    must_open,
    open_circuit,
    take_probe,
)
from oncely.gates.table import GateTable
from oncely.plugins.provider import AnyProvider, ProviderSettings
from oncely.plugins.request_gate import GatedResponse

_log = logging.getLogger(__name__)
# A pause must be effective within 10 seconds.
SNAPSHOT_AGE: Final = timedelta(seconds=5)
# After a failed read. A table that does not respond must not slow down every job.
RETRY_AFTER: Final = timedelta(seconds=10)
# A process that cannot read the gate uses a tenth of the rate: others may do the same.
LOCAL_SLOWDOWN: Final = 10
_NO_SETTINGS: Final = ProviderSettings()


@dataclass(eq=False, kw_only=True)
class Gate:
    """The gates of all providers. It can only delay."""

    table: GateTable
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
        contract: AnyContract,
        group: EndpointGroup = EndpointGroup.EFFECTS,
        *,
        deadline: datetime | None = None,
    ) -> Hold | None:
        """Wait for a slot. Returns why there is none, if the job must wait elsewhere."""
        passage, now = passage_of(contract, group), self.clock.now()
        GATE_PASS.set(None)
        if (hold := self.hold(contract, group)) is not None:
            return hold
        gate_pass = GatePass(group, used={group: set()})
        plugin, gate = plugin_of(contract), passage.gate
        if plugin is not None and gate is not None:
            if self._state(gate).circuit(now) is Circuit.HALF_OPEN:
                gate_pass.probes = self._probe(gate, contract, plugin)
                GATE_PASS.set(gate_pass)
                if (hold := self.hold(contract, group)) is not None:
                    return hold
            latest = now + MAX_SLOT_WAIT
            if deadline is not None:
                can_wait_until = deadline - contract.policy.max_duration
                latest = min(latest, max(can_wait_until, now + MIN_SLOT_WAIT))
            slot = self.take_slot(gate, self.limit(plugin, group), latest)
            if isinstance(slot, Hold):
                return slot
            gate_pass.slot = slot
        GATE_PASS.set(gate_pass)
        return None

    def give_back(self) -> None:
        """Return the slot of a run that sends nothing. Another thread can use it."""
        gate_pass = GATE_PASS.get()
        if gate_pass and gate_pass.slot and not any(gate_pass.used.values()):
            self._of(gate_pass.slot.gate).slots.appendleft(gate_pass.slot)
        GATE_PASS.set(None)

    def hold(
        self, contract: AnyContract, group: EndpointGroup = EndpointGroup.EFFECTS
    ) -> Hold | None:
        """Why a request must not be sent now. Called right before each effect as well."""
        passage, now = passage_of(contract, group), self.clock.now()
        snapshot = self.snapshot(now)
        if (pause := snapshot.pause_of(passage)) is not None and (by := pause.current):
            by_whom = f"since {format_minute(by.at)} by {operator_name(by.actor)}"
            reason = f"{pause.target} is paused {by_whom}: {by.reason}"
            return Hold(reason=reason, until=now, is_pause=True)
        gate_pass = GATE_PASS.get()
        if passage.provider is None or (gate_pass is not None and gate_pass.probes):
            return None
        return open_circuit_hold(passage.provider, snapshot.state(passage), now)

    def policy_for(self, job: JobRow, contract: AnyContract) -> RetryPolicy:
        """The policy of a job. The time in which it was held does not count as age."""
        policy = contract.policy
        if not job.past_max_age(policy.limits.max_age, self.clock.now()):
            return policy
        return policy.with_more_age(self.held_time(job, contract))

    def held_time(self, job: JobRow, contract: AnyContract) -> timedelta:
        """How long jobs like this one were held since its age began."""
        passage, now = passage_of(contract, EndpointGroup.EFFECTS), self.clock.now()
        return self.snapshot(now).held_time(passage, since=job.age_starts_at(now), now=now)

    def paused_job_types(self, contracts: Iterable[type[AnyContract]]) -> frozenset[str]:
        """The job types whose jobs are all held."""
        snapshot = self.snapshot(self.clock.now())
        passages = (passage_of(one, EndpointGroup.EFFECTS) for one in contracts)
        return frozenset(one.job_type for one in passages if snapshot.pause_of(one) is not None)

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

    def _state(self, gate: str) -> GateState:
        return self._snapshot.gates.get(gate, GateState())

    def _of(self, gate: str) -> LocalGate:
        with self._lock:
            return self._local.setdefault(gate, LocalGate())

    def limit(self, plugin: AnyProvider, group: EndpointGroup) -> RateLimit:
        """The limit of the stage, or else of the provider's profile."""
        stage = self.settings.get(plugin.name, _NO_SETTINGS)
        return stage.rate_limit(group, plugin.profile.rate_limits.get(group))

    # Slots.

    @contextmanager
    def in_flight(self, gate: str, limit: RateLimit) -> Iterator[None]:
        """Count a request in flight. This process has its share of the maximum."""
        if limit.max_in_flight is None:
            yield
            return
        local = self._of(gate)
        with local.lock:
            local.in_flight = local.in_flight or threading.Semaphore(limit.max_in_flight)
        with local.in_flight:
            yield

    def take_slot(self, gate: str, limit: RateLimit, latest: datetime) -> LeasedSlot | Hold | None:
        """Sleep until the first slot that has not passed. Returns None if there is no limit."""
        rate = limit.per_second
        if rate is None:
            return None
        local = self._of(gate)
        while True:
            with local.lock:
                local.count(self.clock.now())
                local.drop_passed_slots(self.clock.now())
                if not local.slots and not self._lease(gate, rate, latest):
                    return Hold(reason=f"the rate limit of {gate} is used up", until=latest)
                slot = local.slots.popleft()
            if slot.at > latest:
                local.slots.appendleft(slot)
                return Hold(reason=f"the rate limit of {gate} is used up", until=slot.at)
            if (wait := (slot.at - self.clock.now()).total_seconds()) > 0:
                self.sleep(wait)
            # After a freeze the slot has passed, and using it could be a burst.
            if not is_void(slot.at, slot.interval, self.clock.now()):
                return slot

    def _lease(self, gate: str, per_second: float, latest: datetime) -> bool:
        """Lease the slots of this batch. Returns False if there are none in time."""
        local, now = self._of(gate), self.clock.now()
        interval = self._state(gate).interval(per_second, now)
        # At a low rate most slots of a batch would come too late for it.
        in_time = 1 + max(latest - now, timedelta(0)) // interval
        count = min(local.expected(), MAX_LEASE, in_time)
        try:
            state, slots = self.table.lease(
                gate, count=count, interval=interval, now=now, latest=latest
            )
            self._learn(gate, state)
        except OncelyError as error:
            self.on_error(error)
            local.fallback, slots = lease_slots(
                local.fallback,
                count=1,
                interval=interval * LOCAL_SLOWDOWN,
                now=now,
                latest=latest,
            )
        if slots is None:
            return False
        local.slots.extend(LeasedSlot(gate, at, slots.interval) for at in slots.times())
        return True

    # The circuit.

    def _probe(self, gate: str, contract: AnyContract, plugin: AnyProvider) -> str | None:
        """Read once from the provider, in one process. Returns the gate if a run must do it."""
        now = self.clock.now()
        if not self._change(gate, lambda state: take_probe(state, now)):
            return None
        GATE_PASS.set(GatePass(EndpointGroup.LOOKUPS, is_ungated=True))
        try:
            responds = plugin.responds(contract.dependencies.provider(plugin))
        except Exception as error:  # noqa: BLE001  # whatever a provider's SDK raises
            self.on_error(error)
            responds = False
        if responds is None:
            return gate
        self._end_probe(gate, failed=not responds)
        return None

    def _end_probe(self, gate: str, *, failed: bool) -> None:
        now = self.clock.now()
        end = after_failed_probe if failed else close_circuit
        self._change(gate, lambda state: end(state, now))
        if not failed:
            self._of(gate).results.clear()

    def record(self, gate: str, gate_pass: GatePass, *, failed: bool) -> None:
        """Count a response of the provider. Many failures open the circuit."""
        now, local = self.clock.now(), self._of(gate)
        if gate_pass.is_ungated:
            return
        if gate_pass.probes is not None:
            self._end_probe(gate_pass.probes, failed=failed)
            gate_pass.probes = None
            return
        local.results.append((now, failed))
        if failed and must_open(tuple(local.results), now):
            self._change(gate, lambda state: open_circuit(state, now))

    def _change(self, gate: str, rule: Callable[[GateState], GateState | None]) -> bool:
        """Change a circuit. Returns False if it changed already, or cannot be changed now."""
        before = self._state(gate)
        after = rule(before)
        if after is None:
            return False
        try:
            changed = self.table.change_circuit(gate, before, after)
        except OncelyError as error:
            self.on_error(error)
            return False
        if changed:
            self._learn(gate, replace(after, next_slot=before.next_slot))
        else:
            self._next_read = None  # another process was first
        return changed

    def _learn(self, gate: str, state: GateState) -> None:
        with self._lock:
            known = self._snapshot
            self._snapshot = replace(known, gates={**known.gates, gate: state})


@dataclass(frozen=True)
class ProviderRequests:
    """The gate of one provider, for its client."""

    gate: Gate
    plugin: AnyProvider

    @contextmanager
    def request(
        self, endpoint: str = "", *, group: EndpointGroup | None = None
    ) -> Iterator[GatedResponse]:
        """Take a slot, unless that of the run allows a request to this endpoint."""
        # The admin page has none, because it is outside of a run or a sweep.
        gate_pass = GATE_PASS.get() or GatePass(EndpointGroup.LOOKUPS)
        group = group or gate_pass.group
        name = gate_name(self.plugin.name, group)
        limit = self.gate.limit(self.plugin, group)
        used = gate_pass.used.get(group, {endpoint})
        if endpoint in used and not gate_pass.is_ungated:
            now = self.gate.clock.now()
            state = self.gate.snapshot(now).gates.get(name, GateState())
            in_effect = gate_pass.group is EndpointGroup.EFFECTS
            latest = now + (MAX_WAIT_IN_EFFECT if in_effect else MAX_SLOT_WAIT)
            slot = open_circuit_hold(self.plugin.name, state, now) or self.gate.take_slot(
                name, limit, latest
            )
            if isinstance(slot, Hold):
                raise GateClosedError(slot.reason)
            used = set()
        gate_pass.used[group] = used | {endpoint}
        response = GatedResponse()
        try:
            with self.gate.in_flight(name, limit):
                yield response
        finally:
            self.gate.record(name, gate_pass, failed=response.failed)


def passage_of(contract: AnyContract | type[AnyContract], group: EndpointGroup) -> Passage:
    """Return what a run or a lookup of this contract has to pass."""
    plugin = plugin_of(contract)
    return Passage(
        job_type=contract.job_type,
        queue=contract.resources.queue,
        provider=None if plugin is None else plugin.name,
        group=group,
    )


def plugin_of(contract: AnyContract | type[AnyContract]) -> AnyProvider | None:
    """The provider of a job. Before its precheck, that of a type with only one."""
    plugins = contract.resources.providers
    if len(plugins) == 1:
        return plugins[0]
    return next((one for one in plugins if one.name == contract.provider), None)
