"""The gate of one process: it waits for slots, holds what is paused, and opens the circuit."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncely.core.errors import UnavailableError
from oncely.core.outcomes import Duplicate, Rejected
from oncely.core.profiles import EndpointGroup
from oncely.core.surroundings import Hold
from oncely.gates.gate import (
    FIRST_PROBE_AFTER,
    LOCAL_SLOWDOWN,
    MAX_SLOT_WAIT,
    MIN_FAILURES,
    RETRY_AFTER,
    SLOT_LEAD,
    SNAPSHOT_AGE,
    Gate,
    GateSnapshot,
    GateState,
    Pause,
    PauseAction,
    PauseEntry,
    Slot,
)
from oncely.gates.table import GateTable
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.operate.own_tables import GATES
from oncely.plugins.provider import ProviderSettings
from oncely.providers.stripe.plugin import STRIPE
from tests.support.fakes import START, FakeClock
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished
from tests.support.stored_rows import new_account

EFFECTS, LOOKUPS = EndpointGroup
NAME = "stripe:effects"


class Probed:
    """The client of a provider whose reads respond, or not."""

    responds_now = True
    probes = 0

    def responds(self) -> bool:
        self.probes += 1
        return self.responds_now


class FlakyTable(GateTable):
    """The shipped table, which counts and may be down."""

    def __init__(self) -> None:
        super().__init__(new_account().clients.dynamodb, GATES)
        self.is_down = False
        self.reads = 0
        self.leases: list[int] = []

    @property
    def gates(self) -> Mapping[str, GateState]:
        return super().read().gates

    @property
    def next_slot(self) -> datetime:
        """The slot after those that were leased."""
        key = {"gate": {"S": NAME}}
        item = self.client.get_item(TableName=self.table, Key=key)["Item"]
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(item["next_slot"]["N"]))

    @property
    def pauses(self) -> Mapping[str, Pause]:
        return super().read().pauses

    def lease_until(self, next_slot: datetime, *, gate: str = NAME) -> None:
        """Lease the slots before this time to other processes."""
        taken = next_slot - START - SLOT_LEAD
        super().lease(gate, count=1, interval=taken, now=START, latest=next_slot)

    def read(self) -> GateSnapshot:
        self.reads += 1
        self._check()
        return super().read()

    def lease(
        self, gate: str, *, count: int, interval: timedelta, now: datetime, latest: datetime
    ) -> tuple[Slot, ...]:
        self._check()
        self.leases.append(count)
        return super().lease(gate, count=count, interval=interval, now=now, latest=latest)

    def change_circuit(self, gate: str, after: GateState) -> bool:
        self._check()
        return super().change_circuit(gate, after)

    def _check(self) -> None:
        if self.is_down:
            raise UnavailableError("no response")


@dataclass
class GateProcess:
    """The gate of one process, whose clock moves while it sleeps."""

    table: FlakyTable = field(default_factory=FlakyTable)
    clock: FakeClock = field(default_factory=FakeClock)
    client: Probed = field(default_factory=Probed)
    settings: ProviderSettings = field(default_factory=ProviderSettings)
    freeze: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        self.gate = Gate(
            table=self.table,
            clock=self.clock,
            sleep=self._sleep,
            settings={"stripe": self.settings},
        )
        ports = InMemoryStack().ports(clients={"stripe": self.client})
        self.contract = PaymentCharge(order_id="18452").with_tools(ports, "stripe")

    def _sleep(self, seconds: float) -> None:
        self.clock.time += timedelta(seconds=seconds) + self.freeze
        self.freeze = timedelta(0)

    def enter(self, group: EndpointGroup = EFFECTS, **more: Any) -> datetime | Hold:  # noqa: ANN401  # the deadline
        """Pass the gate. Returns when it did, or why it could not."""
        return self.gate.enter(self.contract, group, **more) or self.clock.now()

    def respond(self, *statuses: int | None) -> None:
        """Send requests that get these responses. None means no response."""
        for status in statuses:
            with self.gate.requests(STRIPE).request(f"{status}", group=EFFECTS) as response:
                response.status = status

    def pause(
        self, action: PauseAction = PauseAction.PAUSE, target: str = "payment.charge"
    ) -> None:
        entry = PauseEntry(at=self.clock.now(), action=action, actor="ada", reason="wrong prices")
        before = self.table.pauses.get(target, Pause(target=target))
        assert self.table.write_pause(before.with_entry(entry))


@pytest.fixture
def process() -> GateProcess:
    return GateProcess()


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL):
        yield


def test_runs_pass_at_rate_of_profile(process: GateProcess) -> None:
    passed = [process.enter() for _ in range(10)]

    begins = START + SLOT_LEAD
    assert passed == [begins + timedelta(milliseconds=40) * number for number in range(10)]


def test_batch_leases_its_slots_in_one_write(process: GateProcess) -> None:
    for _ in range(2):
        process.clock.advance(seconds=5)
        for _ in range(10):
            process.enter()
    assert process.table.leases == [10, 10], "as many as in the last batch"
    process.clock.advance(seconds=5)
    process.enter()
    process.clock.advance(seconds=5)
    process.enter()
    assert process.table.leases == [10, 10, 10, 1], "and no more, once batches are small"


def test_stage_overrides_rate(process: GateProcess) -> None:
    fast = GateProcess(settings=ProviderSettings(effects_per_second=100))
    passed = [fast.enter(), fast.enter()]
    assert passed[1] - passed[0] == timedelta(milliseconds=10)  # type: ignore[operator]  # both passed


def test_batch_at_low_rate_leases_only_slots_that_it_can_wait_for() -> None:
    slow = GateProcess(settings=ProviderSettings(effects_per_second=0.1))
    slow.enter()
    assert slow.table.next_slot == START + SLOT_LEAD + timedelta(seconds=30)


def test_process_that_wakes_up_late_passes_at_high_rate() -> None:
    fast = GateProcess(settings=ProviderSettings(effects_per_second=5000))
    fast.freeze = timedelta(milliseconds=2)
    assert fast.enter() == START + SLOT_LEAD + timedelta(milliseconds=2)


def test_processes_share_slots(process: GateProcess) -> None:
    other = GateProcess(table=process.table)
    passed = [one.enter() for _ in range(5) for one in (process, other)]
    assert len(set(passed)) == 10


def test_thawed_process_does_not_use_slots_that_passed(process: GateProcess) -> None:
    process.enter()
    process.freeze = timedelta(hours=1)

    assert isinstance(process.enter(), Hold), "it waited too long"

    assert isinstance(process.enter(), datetime)


def test_slot_of_refused_claim_is_used_by_next_run(process: GateProcess) -> None:
    first = process.enter()
    process.gate.give_back()
    assert process.enter() == first


def test_slot_that_was_used_is_not_returned(process: GateProcess) -> None:
    """A run that needs no slot may have the thread of one that sent."""
    first = process.enter()
    process.respond(200)
    process.gate.give_back()
    assert process.enter() != first


def test_full_gate_holds_runs_without_a_slot(process: GateProcess) -> None:
    process.table.lease_until(START + MAX_SLOT_WAIT + timedelta(seconds=1))
    held = process.enter()
    assert isinstance(held, Hold)
    assert not held.is_pause
    assert process.table.next_slot == START + MAX_SLOT_WAIT + timedelta(seconds=1)


def test_run_waits_only_until_it_could_not_end_in_time(process: GateProcess) -> None:
    process.table.lease_until(START + timedelta(seconds=5))
    needed = process.contract.policy.max_duration
    held = process.enter(deadline=START + needed + timedelta(seconds=4))
    assert isinstance(held, Hold)
    slot = START + timedelta(seconds=5)
    assert process.enter(deadline=START + needed + timedelta(seconds=6)) == slot


def test_pause_is_effective_within_ten_seconds(process: GateProcess) -> None:
    process.enter()
    process.pause()
    process.clock.advance(seconds=10)
    held = process.enter()
    assert isinstance(held, Hold)
    assert held.is_pause
    assert held.reason == (
        "payment.charge is paused since 2026-11-16 03:00 UTC by ada: wrong prices"
    )
    assert process.gate.hold(process.contract) is not None
    assert isinstance(process.enter(LOOKUPS), datetime)


@pytest.mark.parametrize(
    ("target", "held"),
    [
        ("payment.charge", {"payment.charge"}),
        ("queue:payments", {"payment.charge", "payment.refund"}),
        ("provider:ses", {"receipt.send"}),
        ("provider:stripe", set()),  # charges and refunds may be at another one
        ("sync.removed", set()),
    ],
)
def test_sweep_leaves_out_types_that_are_held_wholly(
    process: GateProcess, target: str, held: set[str]
) -> None:
    process.pause(target=target)
    assert process.gate.paused_job_types(SHIPPED_JOBS) == held


def test_snapshot_is_read_once_in_five_seconds(process: GateProcess) -> None:
    for _ in range(4):
        process.gate.hold(process.contract)
    assert process.table.reads == 1
    process.clock.time += SNAPSHOT_AGE
    process.gate.hold(process.contract)
    assert process.table.reads == 2


@pytest.mark.usefixtures("quiet")
def test_unreadable_gate_keeps_last_pause(process: GateProcess) -> None:
    process.pause()
    process.enter()
    process.table.is_down = True
    process.clock.advance(hours=1)
    assert isinstance(process.enter(), Hold)
    assert process.table.reads == 2
    process.clock.time += RETRY_AFTER
    process.table.is_down = False
    process.pause(PauseAction.RESUME)
    assert isinstance(process.enter(), datetime)


@pytest.mark.usefixtures("quiet")
def test_unreadable_gate_falls_back_to_low_local_rate(process: GateProcess) -> None:
    process.table.is_down = True
    passed = [process.enter() for _ in range(3)]
    apart = timedelta(milliseconds=40) * LOCAL_SLOWDOWN
    assert passed == [START + SLOT_LEAD + apart * number for number in range(3)]


def test_server_errors_open_circuit_for_every_process(process: GateProcess) -> None:
    other = GateProcess(table=process.table)
    process.enter()
    process.respond(None, 500, 502, 503, 504)

    held, elsewhere = process.enter(), other.enter()

    assert isinstance(held, Hold)
    opened_at = process.table.gates[NAME].opened_at
    assert opened_at is not None
    assert held.until == opened_at + FIRST_PROBE_AFTER
    assert "stripe has not responded since" in held.reason
    assert isinstance(elsewhere, Hold)
    assert isinstance(process.enter(LOOKUPS), datetime), "another gate"


def test_declines_never_open_circuit(process: GateProcess) -> None:
    process.enter()
    process.respond(*[402, 400, 429, 401, 404] * MIN_FAILURES)
    assert process.table.gates[NAME].opened_at is None


def opened(process: GateProcess) -> GateProcess:
    process.enter()
    process.respond(*[None] * MIN_FAILURES)
    process.clock.time += FIRST_PROBE_AFTER + SNAPSHOT_AGE
    return process


def test_provider_that_responds_to_probe_closes_circuit(process: GateProcess) -> None:
    opened(process)
    assert isinstance(process.enter(), datetime)
    assert process.table.gates[NAME].opened_at is None


def test_provider_that_does_not_respond_stays_held(process: GateProcess) -> None:
    process.client.responds_now = False
    opened(process)
    held = process.enter()
    assert isinstance(held, Hold)
    assert held.until > process.clock.now()
    assert process.table.gates[NAME].opened_at is not None


def test_only_one_process_probes(process: GateProcess) -> None:
    opened(process)
    other = GateProcess(table=process.table, clock=process.clock)
    other.client.responds_now = False
    assert other.gate.hold(other.contract) is None, "it has read that one may probe"

    class Slow(Probed):
        def responds(self) -> bool:
            assert isinstance(other.enter(), Hold)
            return True

    slow = InMemoryStack().ports(clients={"stripe": Slow()})
    process.contract = PaymentCharge(order_id="18452").with_tools(slow, "stripe")
    assert isinstance(process.enter(), datetime)
    assert other.client.probes == 0


def test_run_is_probe_if_provider_has_no_read(
    process: GateProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(STRIPE), "responds", lambda _self, _client: None)
    opened(process)
    assert isinstance(process.enter(), datetime)
    assert process.table.gates[NAME].opened_at is not None
    process.respond(200)
    assert process.table.gates[NAME].opened_at is None


@pytest.mark.parametrize("refused", [charge_message(), charge_message(attempt=2)])
def test_refused_claim_returns_its_slot(refused: dict[str, Any]) -> None:
    """A duplicate, and an attempt after one that did not fail: the next run has the same slot."""
    world = InMemoryStack()
    world.add_order()
    clock = world.clock
    gate = Gate(
        table=world.gates, clock=clock, sleep=lambda seconds: clock.advance(seconds=seconds)
    )
    runner = world.app(gate=gate).job_runner
    assert is_finished(world.run(charge_message(), runner=runner))
    world.add_order()  # as if it were unpaid, so that only the claim refuses

    assert isinstance(world.run(refused, runner=runner), Duplicate | Rejected)
    passed = clock.now()
    assert isinstance(world.run(refused, runner=runner), Duplicate | Rejected)

    assert clock.now() == passed
