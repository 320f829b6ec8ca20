"""payment.refund: each refund id once, never more than was captured, no amount left reserved."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.outcomes import NeedsReview
from oncely.core.repairs import Repair
from oncely.jobs.refund_ledger import RefundLedger, RefundState
from oncely.operate.repair_request import NotAllowed, Repaired, RepairOutcome, RepairRequest
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_duplicate, is_finished, is_retried, waits_for_rows
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import repair_job

CHARGE_ID = "ch_1"


def refund_key(refund_id: str = "rma_1") -> str:
    return f"payment.refund:order_18452:{refund_id}"


def ledger(world: InMemoryStack) -> RefundLedger:
    row = world.rows.get("refunds", {"charge_id": CHARGE_ID})
    return RefundLedger.from_row(CHARGE_ID, row)


def refund_keys(world: InMemoryStack) -> list[str]:
    keys = [key for step, key in world.payments.calls if step == "refund"]
    return [key.rpartition(":")[2] for key in keys]


@pytest.fixture
def paid(world: InMemoryStack) -> InMemoryStack:
    """An order of 12.50 EUR that is paid."""
    assert is_finished(world.run(charge_message()))
    world.outbox.sent.clear()
    return world


def test_order_is_refunded_in_full(paid: InMemoryStack) -> None:
    assert is_finished(paid.run(paid.request_refund()))

    job = paid.job(refund_key())
    assert (job.status, job.provider_ref, job.amount) == (Status.FINISHED, "re_1", 1250)
    assert paid.payments.refunded(CHARGE_ID) == 1250
    assert ledger(paid).states == {refund_key(): RefundState.DONE}
    assert paid.order()["status"] == "paid"
    assert job.expires_at is not None
    assert job.expires_at > paid.clock.now() + timedelta(days=6 * 365)


def test_refund_asked_for_ten_times_happens_once(paid: InMemoryStack) -> None:
    outcomes = [paid.run(paid.request_refund(amount=500)) for _ in range(10)]

    assert is_finished(outcomes[0])
    assert [is_duplicate(one) for one in outcomes[1:]] == [True] * 9
    assert paid.payments.refunded(CHARGE_ID) == 500


def test_two_refunds_of_same_amount_both_happen(paid: InMemoryStack) -> None:
    for refund_id in ("rma_1", "rma_2"):
        assert is_finished(paid.run(paid.request_refund(refund_id, amount=500)))
    assert paid.payments.refunded(CHARGE_ID) == 1000
    assert ledger(paid).total(RefundState.DONE) == 1000


def test_more_than_captured_needs_review_and_reserves_nothing(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund(amount=1000))

    outcome = paid.run(paid.request_refund("rma_2", amount=500))

    assert isinstance(outcome, NeedsReview)
    assert "2.50 EUR of 12.50 EUR can be refunded" in outcome.reason
    assert paid.payments.refunded(CHARGE_ID) == 1000
    assert ledger(paid).states == {refund_key(): RefundState.DONE}


def test_refund_by_hand_counts(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund("by hand", amount=1000))
    paid.rows.put("refunds", {"charge_id": CHARGE_ID}, {})

    assert isinstance(paid.run(paid.request_refund(amount=500)), NeedsReview)
    assert paid.payments.refunded(CHARGE_ID) == 1000


def test_cancelled_refund_frees_its_amount(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", ProviderFault.REFUSED_CONNECTION)
    paid.run(paid.request_refund(amount=1000))
    row = paid.job(refund_key())
    assert (row.status, ledger(paid).states) == (Status.READY, {refund_key(): RefundState.RESERVED})

    done = repair_job(paid, Repair.CANCEL, key=JobKey(refund_key()))

    assert isinstance(done, Repaired)
    assert (paid.job(refund_key()).status, ledger(paid).total(RefundState.RESERVED)) == (
        Status.CANCELLED,
        0,
    )
    assert is_finished(paid.run(paid.request_refund("rma_2")))
    assert paid.payments.refunded(CHARGE_ID) == 1250


def test_refund_without_answer_is_not_cancelled(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", ProviderFault.TIMEOUT_BEFORE)
    paid.run(paid.request_refund())
    paid.clock.advance(minutes=5)
    paid.reconcile(refund_key())
    before = paid.job(refund_key())
    assert isinstance(repair_job(paid, Repair.CANCEL, key=JobKey(refund_key())), NotAllowed)
    assert paid.job(refund_key()) == before


def test_refund_that_was_never_claimed_leaves_no_entry(paid: InMemoryStack) -> None:
    paid.enqueuer().enqueue(paid.request_refund())
    assert isinstance(repair_job(paid, Repair.CANCEL, key=JobKey(refund_key())), Repaired)
    assert ledger(paid).states == {}


def test_disputed_charge_needs_review(paid: InMemoryStack) -> None:
    paid.payments.disputed = True
    outcome = paid.run(paid.request_refund())
    assert isinstance(outcome, NeedsReview)
    assert "disputed" in outcome.reason
    assert refund_keys(paid) == [], "the provider is not asked to refund it"


@pytest.mark.parametrize("status", ["payment_pending", "payment_processing"])
def test_refund_waits_for_its_payment(world: InMemoryStack, status: str) -> None:
    world.add_order(status=status)
    assert waits_for_rows(world.run(world.request_refund()))
    world.add_order()
    world.run(charge_message())
    assert world.run_until_idle(refund_key()).status is Status.FINISHED
    assert world.payments.refunded(CHARGE_ID) == 1250


def test_refund_waits_for_bank_debit_for_weeks(world: InMemoryStack) -> None:
    world.add_order(status="payment_processing")
    world.run(world.request_refund())
    end = world.clock.now() + timedelta(days=20)
    looks = 0
    while world.clock.now() < end:
        world.clock.time = world.job(refund_key()).due_at or end
        world.reconcile(refund_key())
        looks += 1
    assert world.job(refund_key()).status is Status.READY
    assert looks < 700

    world.add_order()
    world.run(charge_message())
    assert world.run_until_idle(refund_key()).status is Status.FINISHED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": "payment_failed"}, "its payment failed"),
        # No payment can change these, so an order that is not paid yet does not wait.
        ({"payment_provider": "braintree"}, "payment_provider is 'braintree', this deployment has"),
        ({"payment_provider": 7}, "its payment_provider is 7"),
        ({"currency": "usd"}, "its currency is 'usd', and refund request rma_1 has eur"),
        (
            {"status": "paid", "payment_provider": "braintree"},
            "its payment_provider is 'braintree', this deployment has stripe",
        ),
        ({"status": "paid"}, "it has no charge_id"),
        ({"status": "paid", "charge_id": "ch_9"}, "No such charge: 'ch_9'"),
    ],
)
def test_order_that_cannot_be_refunded_needs_review(
    world: InMemoryStack, changes: dict[str, Any], reason: str
) -> None:
    world.add_order(**changes)
    outcome = world.run(world.request_refund())
    assert isinstance(outcome, NeedsReview)
    assert reason in outcome.reason


def test_charge_of_another_order_is_not_refunded(paid: InMemoryStack) -> None:
    paid.add_order("777", status="paid", charge_id=CHARGE_ID)
    outcome = paid.run(paid.request_refund(order_id="777"))
    assert isinstance(outcome, NeedsReview)
    assert "is the charge of order 18452" in outcome.reason


def test_reservation_of_another_order_is_not_used(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", ProviderFault.REFUSED_CONNECTION)
    paid.run(paid.request_refund())
    paid.add_order("777", status="paid", charge_id=CHARGE_ID)

    outcome = paid.run(paid.request_refund(order_id="777"))

    assert isinstance(outcome, NeedsReview)
    assert "is the charge of order 18452" in outcome.reason
    assert paid.payments.refunds == {}
    assert paid.run_until_idle(refund_key()).status is Status.FINISHED


def test_lost_answer_is_found_in_the_list(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", ProviderFault.TIMEOUT_AFTER)
    paid.run(paid.request_refund())

    assert paid.run_until_idle(refund_key()).status is Status.FINISHED
    assert len(paid.payments.refunds) == 1
    assert ledger(paid).states == {refund_key(): RefundState.DONE}


def test_request_without_answer_is_repeated_under_the_same_key(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", *[ProviderFault.TIMEOUT_BEFORE] * 2)
    paid.run(paid.request_refund())

    assert paid.run_until_idle(refund_key()).status is Status.FINISHED
    assert refund_keys(paid) == ["1", "1", "1"]
    assert paid.payments.refunded(CHARGE_ID) == 1250


def test_key_number_rises_after_a_replayed_answer_and_an_empty_list(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", ProviderFault.SERVER_ERROR)
    paid.run(paid.request_refund())

    assert paid.run_until_idle(refund_key()).status is Status.FINISHED
    assert refund_keys(paid) == ["1", "1", "2"]


def test_answer_under_an_older_key_does_not_raise_the_next(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", ProviderFault.SERVER_ERROR)
    paid.run(paid.request_refund())
    assert paid.run_until_idle(refund_key(), steps=4).key_number == 2
    paid.payments.fail_next("refund", ProviderFault.TIMEOUT_BEFORE)

    assert paid.run_until_idle(refund_key()).status is Status.FINISHED
    assert refund_keys(paid) == ["1", "1", "2", "2"]


def test_request_without_answer_needs_review_once_its_key_expired(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", ProviderFault.TIMEOUT_BEFORE)
    paid.run(paid.request_refund())
    paid.clock.advance(hours=23)

    job = paid.run_until_idle(refund_key())

    assert job.status is Status.NEEDS_REVIEW
    assert "had no answer" in str(job.last_error)
    assert refund_keys(paid) == ["1"]


def test_declined_refund_frees_its_amount(paid: InMemoryStack) -> None:
    paid.payments.model.refund_status = "failed"
    paid.run(paid.request_refund())
    paid.payments.model.refund_status = "succeeded"

    assert paid.job(refund_key()).status is Status.FAILED
    assert ledger(paid).states == {refund_key(): RefundState.FAILED}
    assert is_finished(paid.run(paid.request_refund("rma_2")))


def test_pending_refund_ends_days_later(paid: InMemoryStack) -> None:
    paid.payments.model.refund_status = "pending"
    paid.run(paid.request_refund())
    assert paid.job(refund_key()).status is Status.UNKNOWN
    paid.clock.advance(days=4)
    paid.payments.complete_refund("re_1", status="failed")

    assert paid.run_until_idle(refund_key()).status is Status.FAILED
    assert ledger(paid).states == {refund_key(): RefundState.FAILED}


def test_undecided_refund_keeps_its_amount_reserved(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", ProviderFault.TIMEOUT_BEFORE)
    paid.run(paid.request_refund(amount=1000))
    paid.payments.fail_next("lookup_refund", *[ProviderFault.TIMEOUT_BEFORE] * 3)

    second = paid.run(paid.request_refund("rma_2", amount=1000))

    assert is_retried(second)
    assert "may leave too little" in second.reason
    assert paid.run_until_idle(refund_key()).status is Status.FINISHED
    assert paid.run_until_idle(refund_key("rma_2")).status is Status.NEEDS_REVIEW
    assert paid.payments.refunded(CHARGE_ID) == 1000


def test_reservation_of_another_refund_since_the_read_is_not_overwritten(
    paid: InMemoryStack,
) -> None:
    class _ReservesMeanwhile:
        def __getattr__(self, name: str) -> object:
            if name == "read_charge" and not ledger(paid).states:
                row = {"reservations": 1, "state:other": "reserved", "amount:other": 1000}
                paid.rows.put("refunds", {"charge_id": CHARGE_ID}, row)
            return getattr(paid.payments, name)

    runner = paid.runner(provider=_ReservesMeanwhile())
    outcome = paid.run(paid.request_refund(amount=1000), runner=runner)

    assert is_retried(outcome)
    assert (paid.payments.refunds, paid.job(refund_key()).attempts) == ({}, 0)
    assert ledger(paid).states == {"other": "reserved"}


def test_forged_row_cannot_skip_the_reservation(paid: InMemoryStack) -> None:
    paid.enqueuer().enqueue(paid.request_refund())
    row = paid.job(refund_key())
    paid.store.jobs[row.job_key] = replace(row, provider_ref="re_forged")

    outcome = paid.run(paid.request_refund())

    assert isinstance(outcome, NeedsReview)
    assert "no amount of ch_1 is reserved" in outcome.reason
    assert paid.payments.refunds == {}


def test_outage_before_the_reservation_spends_no_attempt(paid: InMemoryStack) -> None:
    paid.payments.fail_next("read_charge", ProviderFault.TIMEOUT_BEFORE)
    assert is_retried(paid.run(paid.request_refund()))
    assert (paid.job(refund_key()).attempts, ledger(paid).states) == (0, {})
    assert is_finished(paid.run(paid.request_refund()))


def test_refund_is_found_by_its_order(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund())
    found = paid.inspector().search("18452")
    assert {view.job.job_type for view in found.jobs} >= {"payment.charge", "payment.refund"}
    (view,) = [view for view in found.jobs if view.job.job_type == "payment.refund"]
    assert view.headline == "Refunded once: 12.50 EUR (re_1)."


def look_up(world: InMemoryStack) -> RepairOutcome:
    job = world.job(refund_key())
    request = RepairRequest(
        key=job.job_key,
        repair=Repair.LOOK_UP,
        version=job.version,
        actor="ana",
        reason="Stripe writes that it failed",
    )
    return world.repairer().repair(request)


def test_refund_that_fails_later_needs_review_and_frees_its_amount(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund())
    paid.clock.advance(days=9)
    paid.payments.complete_refund("re_1", status="failed")

    assert isinstance(look_up(paid), Repaired)

    job = paid.job(refund_key())
    assert (job.status, job.expires_at) == (Status.NEEDS_REVIEW, None)
    assert "re_1 failed" in str(job.last_error)
    assert ledger(paid).states == {refund_key(): RefundState.FAILED}
    paid.reconcile(refund_key())
    assert len(paid.alerts.sent) == 1
    assert is_finished(paid.run(paid.request_refund("rma_2")))


def test_refund_that_fails_after_its_request_changed_needs_review(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund())
    paid.payments.complete_refund("re_1", status="failed")
    job = paid.job(refund_key())
    edited = replace(job, fingerprint="of another request", version=job.version + 1)
    paid.store.swap(job, edited)

    assert isinstance(look_up(paid), Repaired)

    assert paid.job(refund_key()).status is Status.NEEDS_REVIEW
    assert ledger(paid).states == {refund_key(): RefundState.DONE}, "an operator frees it"


def test_refund_that_stands_is_only_noted(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund())
    assert isinstance(look_up(paid), Repaired)
    assert paid.job(refund_key()).status is Status.FINISHED
    assert ledger(paid).states == {refund_key(): RefundState.DONE}
    assert paid.alerts.sent == []


def test_other_refund_of_the_job_does_not_free_the_amount(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund())
    job = paid.job(refund_key())
    edited = replace(job, provider_ref="re_7", version=job.version + 1)
    paid.store.swap(job, edited)

    assert isinstance(look_up(paid), Repaired)

    assert paid.job(refund_key()).status is Status.NEEDS_REVIEW
    assert ledger(paid).total(RefundState.DONE) == paid.payments.refunded(CHARGE_ID)


def test_late_failure_that_the_ledger_refuses_needs_review(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund())
    paid.payments.complete_refund("re_1", status="failed")
    entry = refund_key()
    row = {f"amount:{entry}": 1, f"state:{entry}": "done", "reservations": 1}
    paid.rows.put("refunds", {"charge_id": CHARGE_ID}, row)

    assert isinstance(look_up(paid), Repaired)
    assert paid.job(refund_key()).status is Status.NEEDS_REVIEW
    assert paid.rows.get("refunds", {"charge_id": CHARGE_ID}) == {"charge_id": CHARGE_ID, **row}
