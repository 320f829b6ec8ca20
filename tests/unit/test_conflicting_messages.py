"""Same key, other business values: a conflict before any call, and the job is unchanged."""

import pytest

from tests.support.crash_points import CrashingPort, CrashPlan, SimulatedCrashError
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_conflict, is_finished

KEY = "payment.charge:order_18452"
OTHER = ({"amount": 9900}, {"currency": "usd"}, {"customer_id": "customer_8"})


@pytest.mark.parametrize("other", OTHER)
def test_message_that_differs_from_order_conflicts_on_first_run(
    world: InMemoryStack, other: dict[str, object]
) -> None:
    assert is_conflict(world.run({**charge_message(), **other}))
    assert world.store.get(KEY) is None
    assert world.payments.calls == []
    assert world.alerts.sent


@pytest.mark.parametrize("other", OTHER)
def test_conflicting_message_leaves_ended_job_unchanged(
    world: InMemoryStack, other: dict[str, object]
) -> None:
    world.run(charge_message())
    before = world.job(KEY)
    assert is_conflict(world.run({**charge_message(), **other}))
    assert world.job(KEY) == before


def crash_at_execute(world: InMemoryStack, *, after: bool) -> None:
    crashing = CrashingPort(world.payments, CrashPlan(crash_at="execute", crash_after=after))
    with pytest.raises(SimulatedCrashError):
        world.run(charge_message(), runner=world.runner(provider=crashing))


def test_changed_order_conflicts_on_takeover(world: InMemoryStack) -> None:
    crash_at_execute(world, after=True)
    world.add_order(amount=9900)
    world.clock.advance(hours=1)
    before = world.job(KEY)

    assert is_conflict(world.run(charge_message()))
    assert world.job(KEY) == before
    assert world.alerts.sent


def test_ready_row_with_other_values_is_not_claimed(world: InMemoryStack) -> None:
    crash_at_execute(world, after=False)
    world.clock.advance(hours=1)
    world.reconcile(KEY)
    world.reconcile(KEY)
    world.outbox.sent.clear()
    assert world.job(KEY).status == "ready"
    world.add_order(amount=9900)

    assert is_conflict(world.run(charge_message()))
    assert world.job(KEY).status == "ready"
    assert world.payments.charges == []


@pytest.mark.parametrize(
    "same", [{"amount": 1250}, {"currency": "EUR"}, {"customer_id": "customer_7"}, {"attempt": 1}]
)
def test_optional_fields_do_not_change_job(world: InMemoryStack, same: dict[str, object]) -> None:
    assert is_finished(world.run(charge_message()))
    assert not is_conflict(world.run({**charge_message(), **same}))
    assert world.payments.charges == ["pi_1"]


def test_conflict_reports_failed_alert(world: InMemoryStack) -> None:
    world.alerts.fails = True
    outcome = world.run({**charge_message(), "amount": 9900})
    assert is_conflict(outcome)
    assert not outcome.alerted
