"""While a provider does not respond: nothing is spent, written or escalated, and all continues."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.profiles import EndpointGroup
from oncely.core.repairs import Repair
from oncely.gates.gate import (
    FIRST_PROBE_AFTER,
    Gate,
    GateState,
    gate_name,
    open_circuit,
)
from oncely.operate.repair_request import ProviderUnavailable, Repaired
from oncely.reconcile.find_due_work import SweepRequest
from oncely.reconcile.reconciler import HELD
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished, is_held
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import is_unchanged, repair_job, world_with_unknown_job
from tests.support.worker import BatchHarness, make_delivery

KEY = JobKey("payment.charge:order_18452")


@pytest.fixture
def world() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    return world


def open_circuits(world: InMemoryStack) -> None:
    for group in EndpointGroup:
        opened = open_circuit(GateState(), world.clock.now())
        assert opened is not None
        world.gates.change_circuit(gate_name("stripe", group), opened)


def stop_responding(world: InMemoryStack) -> None:
    world.payments.sandbox.faults.add("outage", times=None)
    open_circuits(world)


def sweep(world: InMemoryStack) -> set[str]:
    items = world.finder().find(SweepRequest()).items
    deadline = world.clock.now() + timedelta(minutes=2)
    handled = world.app().group_resolver.resolve(items, deadline=deadline)
    return {one.resolution.outcome for one in handled if one.resolution is not None}


def test_message_returns_to_queue_without_a_row(world: InMemoryStack) -> None:
    stop_responding(world)

    (processed,) = BatchHarness(world=world).process(make_delivery(charge_message()))

    assert is_held(processed.outcome)
    assert not processed.acked
    assert world.store.jobs == {}
    assert not world.payments.intents


def test_unknown_job_is_not_touched_for_three_days(world: InMemoryStack) -> None:
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    before = world.job(KEY)
    assert before.status is Status.UNKNOWN
    stop_responding(world)
    for _ in range(3 * 24):
        world.clock.advance(hours=1)
        assert sweep(world) == {HELD}
    world.payments.sandbox.faults.clear()
    assert world.job(KEY) == before
    assert world.alerts.sent == []

    world.clock.advance(minutes=1)
    assert sweep(world) == {Status.FINISHED}


def test_circuit_that_opens_during_a_run_spends_no_attempt(world: InMemoryStack) -> None:
    def prepare(*given: object, **more: object) -> object:
        prepared = world.payments.client.prepare(*given, **more)
        open_circuits(world)
        return prepared

    world.payments.prepare = prepare

    outcome = world.run(charge_message())

    assert is_held(outcome)
    job = world.job(KEY)
    assert (job.status, job.attempts, job.provider_ref) == (Status.READY, 0, "pi_1")
    assert not world.payments.charges
    world.clock.time += FIRST_PROBE_AFTER
    sweep(world)
    assert is_finished(world.run(world.outbox.sent.pop()))
    assert len(world.payments.charges) == 1


def test_job_of_another_provider_runs(world: InMemoryStack) -> None:
    open_circuits(world)
    world.add_order("7", payment_provider="braintree")
    held, passed = (world.run(charge_message(order)) for order in ("18452", "7"))
    assert is_held(held)
    assert not is_held(passed)


@pytest.mark.parametrize("status", [Status.STARTED, Status.UNKNOWN, Status.NEEDS_REVIEW])
def test_operator_reads_that_the_provider_may_not_be_asked_now(status: Status) -> None:
    world = world_with_unknown_job()
    world.store.jobs[KEY] = replace(world.job(KEY), status=status)
    open_circuits(world)
    before = world.job(KEY)

    outcome = repair_job(world, Repair.LOOK_UP)

    assert isinstance(outcome, ProviderUnavailable)
    assert outcome.reason.startswith("stripe has not responded since")
    assert outcome.reason.endswith("nothing was changed: try again")
    assert is_unchanged(world, before)


def test_lookup_of_an_operator_takes_one_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with_unknown_job()
    gates: list[str] = []
    take_slot = Gate.take_slot

    def counted(gate: Gate, name: str, *rest: object) -> object:
        gates.append(name)
        return take_slot(gate, name, *rest)  # type: ignore[arg-type]  # as the gate passes them

    monkeypatch.setattr(Gate, "take_slot", counted)

    assert isinstance(repair_job(world, Repair.LOOK_UP), Repaired)
    assert gates == ["stripe:lookups"]
