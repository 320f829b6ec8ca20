"""A refund is not sent under a new key while an earlier request or a stale list may hide one."""

from datetime import timedelta

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair
from oncely.core.table_guard import MAX_INVOCATION_TIME
from oncely.jobs.payment_refund import LIST_LAG
from oncely.operate.repair_request import Repaired
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import repair_job
from tests.unit.test_payment_refund import refund_key, refund_keys

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


@pytest.fixture
def paid(world: InMemoryStack) -> InMemoryStack:
    """An order that is paid at a provider which refunds whatever it is asked for."""
    assert is_finished(world.run(charge_message()))
    world.outbox.sent.clear()
    world.payments.model.limits_refunds = False
    return world


def assert_refunded_once(world: InMemoryStack) -> None:
    world.payments.deliver_late()
    assert [one.amount for one in world.payments.refunds.values()] == [500]


@pytest.mark.parametrize("late_by", [60 * SECOND, timedelta(hours=1)])
def test_late_request_and_unstored_500_refund_once(paid: InMemoryStack, late_by: timedelta) -> None:
    faults = (ProviderFault.ARRIVES_LATE, ProviderFault.SERVER_ERROR_UNSTORED)
    paid.payments.late_by = late_by
    paid.payments.fail_next("refund", *faults)
    paid.run(paid.request_refund(amount=500))

    assert paid.run_until_idle(refund_key()).status is Status.FINISHED
    assert set(refund_keys(paid)) == {"1"}
    assert_refunded_once(paid)


@pytest.mark.parametrize("lag", [20 * SECOND, 90 * SECOND, LIST_LAG])
def test_stored_500_and_stale_reads_refund_once(paid: InMemoryStack, lag: timedelta) -> None:
    paid.payments.model.refund_list_lag = paid.payments.model.charge_lag = lag
    paid.payments.fail_next("refund", ProviderFault.SERVER_ERROR_AFTER)
    paid.run(paid.request_refund(amount=500))

    assert paid.run_until_idle(refund_key()).status is Status.FINISHED
    assert refund_keys(paid) == ["1"]
    assert_refunded_once(paid)


def test_list_that_lags_for_hours_is_compared_with_the_charge(paid: InMemoryStack) -> None:
    paid.payments.model.refund_list_lag = timedelta(hours=3)
    paid.payments.fail_next("refund", ProviderFault.SERVER_ERROR_AFTER)
    paid.run(paid.request_refund(amount=500))

    assert paid.run_until_idle(refund_key()).status is Status.FINISHED
    assert refund_keys(paid) == ["1"]
    assert_refunded_once(paid)


@pytest.mark.parametrize("repair", [Repair.REOPEN, Repair.MARK_FAILED])
def test_operator_cannot_act_on_a_stale_list(paid: InMemoryStack, repair: Repair) -> None:
    paid.payments.model.refund_list_lag = 3 * DAY
    paid.payments.fail_next("refund", ProviderFault.SERVER_ERROR_AFTER)
    paid.run(paid.request_refund(amount=500))
    before = paid.run_until_idle(refund_key(), steps=200)
    assert before.status is Status.NEEDS_REVIEW
    assert "but its list shows 0.00 EUR" in str(before.last_error)

    assert not isinstance(repair_job(paid, repair, key=JobKey(refund_key())), Repaired)
    assert paid.job(refund_key()).status is Status.NEEDS_REVIEW
    assert_refunded_once(paid)


def test_charge_is_read_again_before_a_reserved_refund_is_resent(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", ProviderFault.TIMEOUT_BEFORE)
    paid.run(paid.request_refund(amount=500))
    paid.payments.disputed = True

    job = paid.run_until_idle(refund_key())

    assert job.status is Status.NEEDS_REVIEW
    assert "is disputed" in str(job.last_error)
    assert refund_keys(paid) == ["1"]


def test_restored_table_opens_after_the_list_is_complete() -> None:
    # After a restore, a worker treats a list without its refund as proof.
    assert LIST_LAG < MAX_INVOCATION_TIME
