"""Same key, other business values: refused before any call, on every path, the job untouched."""

import pytest

from oncely.run.outcomes import Conflict, Finished
from tests.support.crash_points import CrashingPort, CrashPlan, SimulatedCrashError
from tests.support.in_memory_stack import InMemoryStack, charge_message

KEY = "payment.charge:order_18452"
OTHER = ({"amount": 9900}, {"currency": "usd"}, {"customer_id": "somebody_else"})


@pytest.mark.parametrize("other", OTHER)
def test_message_that_differs_from_order_conflicts_on_first_run(other: dict[str, object]) -> None:
    world = InMemoryStack()
    world.add_order()

    outcome = world.run({**charge_message(), **other})

    assert isinstance(outcome, Conflict)
    assert world.store.get(KEY) is None
    assert world.payments.calls == []
    assert world.alerts.sent


@pytest.mark.parametrize("other", OTHER)
def test_conflicting_message_leaves_ended_job_unchanged(other: dict[str, object]) -> None:
    world = InMemoryStack()
    world.add_order()
    world.run(charge_message())
    before = world.job(KEY)

    outcome = world.run({**charge_message(), **other})

    assert isinstance(outcome, Conflict)
    assert world.job(KEY) == before


def test_changed_order_conflicts_on_takeover() -> None:
    world = InMemoryStack()
    world.add_order()
    mortal = CrashingPort(world.payments, CrashPlan(crash_at="execute", crash_after=True))
    with pytest.raises(SimulatedCrashError):
        world.run(charge_message(), runner=world.runner(provider=mortal))
    world.add_order(amount=9900)
    world.clock.advance(hours=1)
    before = world.job(KEY)

    outcome = world.run(charge_message())

    assert isinstance(outcome, Conflict)
    assert world.job(KEY) == before
    assert world.alerts.sent


def test_ready_row_with_other_values_is_not_claimed() -> None:
    world = InMemoryStack()
    world.add_order()
    mortal = CrashingPort(world.payments, CrashPlan(crash_at="execute", crash_after=False))
    with pytest.raises(SimulatedCrashError):
        world.run(charge_message(), runner=world.runner(provider=mortal))
    world.clock.advance(hours=1)
    world.reconcile(KEY)
    world.reconcile(KEY)
    world.outbox.sent.clear()
    assert world.job(KEY).status == "ready"
    world.add_order(amount=9900)

    outcome = world.run(charge_message())

    assert isinstance(outcome, Conflict)
    assert world.job(KEY).status == "ready"
    assert world.payments.charges == []


@pytest.mark.parametrize(
    "same", [{"amount": 1250}, {"currency": "EUR"}, {"customer_id": "customer_7"}, {"attempt": 1}]
)
def test_optional_fields_do_not_change_job(same: dict[str, object]) -> None:
    world = InMemoryStack()
    world.add_order()
    first = world.run(charge_message())

    second = world.run({**charge_message(), **same})

    assert isinstance(first, Finished)
    assert not isinstance(second, Conflict)
    assert world.payments.charges == ["pi_1"]


def test_conflict_reports_failed_alert() -> None:
    world = InMemoryStack()
    world.add_order()
    world.alerts.fails = True

    outcome = world.run({**charge_message(), "amount": 9900})

    assert isinstance(outcome, Conflict)
    assert not outcome.alerted
