"""Slow payments: a bank debit is processing for days, and ends without an operator."""

from datetime import datetime, timedelta

import pytest

from oncely.core.effect_outcomes import Pending
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, Status
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.unit.decision_grid import decide_any
from tests.unit.samples import NOW, TERMS, TICK, make_job

KEY = "payment.charge:order_18452"
DAY = timedelta(days=1)


def look_up_until(world: InMemoryStack, end: datetime) -> JobRow:
    """Resolve the job whenever it is due, until then."""
    while (job := world.job(KEY)).unresolved and (job.due_at or end) < end:
        world.clock.time = max(world.clock.time, job.due_at or end)
        world.reconcile(KEY)
        while world.outbox.sent:
            world.run(world.outbox.sent.pop(0))
    world.clock.time = max(world.clock.time, end)
    return world.job(KEY)


def lookups(world: InMemoryStack) -> int:
    return [step for step, _ in world.payments.calls].count("lookup")


@pytest.fixture
def debit(world: InMemoryStack) -> InMemoryStack:
    """A debit that the bank is processing."""
    world.payments.processes = True
    world.run(charge_message())
    return world


def test_debit_that_succeeds_on_day_3_finishes_without_operator(debit: InMemoryStack) -> None:
    start = debit.clock.now()
    assert look_up_until(debit, start + 3 * DAY).status is Status.UNKNOWN
    debit.payments.complete("pi_1", status="succeeded")

    job = look_up_until(debit, start + 4 * DAY)

    assert job.status is Status.FINISHED
    assert (debit.order()["status"], debit.payments.charges) == ("paid", ["pi_1"])
    assert 20 < lookups(debit) < 100
    assert debit.alerts.sent == []


def test_debit_that_fails_on_day_5_is_closed_without_operator(debit: InMemoryStack) -> None:
    start = debit.clock.now()
    look_up_until(debit, start + 5 * DAY)
    debit.payments.complete("pi_1", status="declined")

    job = look_up_until(debit, start + 6 * DAY)

    assert job.status is Status.FAILED
    assert (debit.order()["status"], debit.payments.charges) == ("payment_failed", [])
    assert debit.alerts.sent == []


def test_outage_while_processing_needs_no_operator(debit: InMemoryStack) -> None:
    start = debit.clock.now()
    look_up_until(debit, start + 3 * DAY)
    debit.payments.fail_next("lookup", *[ProviderFault.TIMEOUT_BEFORE] * 60)
    look_up_until(debit, start + 3 * DAY + timedelta(hours=12))
    debit.payments.complete("pi_1", status="succeeded")

    assert look_up_until(debit, start + 5 * DAY).status is Status.FINISHED
    assert debit.alerts.sent == []


def test_order_shows_that_its_payment_is_processing(debit: InMemoryStack) -> None:
    assert debit.order()["status"] == "payment_processing"
    assert "charge_requested_at" not in debit.order()


def test_order_shows_processing_after_lost_response(world: InMemoryStack) -> None:
    world.payments.processes = True
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    assert world.order()["status"] == "payment_pending"

    world.reconcile(KEY)

    assert world.order()["status"] == "payment_processing"


def test_cancelled_order_keeps_its_status_while_processing(world: InMemoryStack) -> None:
    world.payments.processes = True
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    world.add_order(status="cancelled")

    world.reconcile(KEY)

    assert (world.job(KEY).status, world.order()["status"]) == (Status.UNKNOWN, "cancelled")


def test_order_that_changes_during_the_call_keeps_its_status(world: InMemoryStack) -> None:
    class _CancelsOrder:
        def __getattr__(self, name: str) -> object:
            if name == "execute":
                world.add_order(status="cancelled")
            return getattr(world.payments, name)

    world.payments.processes = True
    world.run(charge_message(), runner=world.runner(provider=_CancelsOrder()))

    assert (world.job(KEY).status, world.order()["status"]) == (Status.UNKNOWN, "cancelled")
    assert world.alerts.sent == []


def test_duplicate_message_is_answered_while_processing(debit: InMemoryStack) -> None:
    debit.run(charge_message())
    debit.payments.complete("pi_1", status="succeeded")
    assert debit.run_until_idle(KEY).status is Status.FINISHED
    assert debit.payments.charges == ["pi_1"]


@pytest.mark.parametrize(
    ("may_take", "limit"), [(None, 14 * DAY), (23 * DAY, 23 * DAY), (3 * DAY, 3 * DAY)]
)
def test_undecided_payment_needs_review_after_the_limit_of_its_method(
    may_take: timedelta | None, limit: timedelta
) -> None:
    pending = Pending("at the bank", may_take)
    job = make_job(status=Status.UNKNOWN, created_at=NOW - limit, since=NOW - limit + TICK)

    in_time = decide_any(job, TERMS, pending, now=NOW)
    too_late = decide_any(job, TERMS, pending, now=NOW + TICK)

    assert in_time.event is Event.RECHECK
    assert too_late.event is Event.ESCALATE
    assert f"no decision after {limit.days} days" in too_late.reason
