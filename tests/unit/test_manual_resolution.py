"""Marking a job as done or failed, in agreement with the business rows."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from oncely.core.decide import on_late_outcome
from oncely.core.effect_outcomes import Anomalous, BusinessWrite, Declined, Succeeded
from oncely.core.job_type import (
    AlreadyResolved,
    Mismatch,
    NotThereYet,
    PrecheckResult,
    Proceed,
)
from oncely.core.keys import fingerprint
from oncely.core.lifecycle import Status
from oncely.core.outcomes import NeedsReview, Unknown
from oncely.core.repairs import Repair
from oncely.operate.repair_request import (
    BusinessRowConflict,
    Contradicted,
    NotAllowed,
    ProviderUnavailable,
    Repaired,
)
from oncely.operate.repairer import values_changed_since
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_failed, is_finished
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import KEY, is_unchanged, repair_job, world_with_review_job
from tests.support.stripe_account import StripeIntent
from tests.unit.errand_job import FACTS, MESSAGE, PROCEED, errand_type
from tests.unit.errand_job import KEY as ERRAND
from tests.unit.samples import make_job


def test_mark_finished_pays_order_in_same_write() -> None:
    world = world_with_review_job()

    assert isinstance(repair_job(world, Repair.MARK_FINISHED, reference="ch_1"), Repaired)
    assert (world.order()["status"], world.order()["charge_id"]) == ("paid", "ch_1")
    assert "charge_requested_at" not in world.order()
    job = world.job(KEY)
    assert job.status is Status.FINISHED
    assert job.due_at is not None
    assert world.publisher().publish(KEY)
    assert json.loads(world.outbox.sent[-1])["job"] == "receipt.send"


def test_mark_finished_needs_reference() -> None:
    assert isinstance(repair_job(world_with_review_job(), Repair.MARK_FINISHED), NotAllowed)


def test_mark_failed_fails_order_after_payment_is_closed() -> None:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)

    assert isinstance(repair_job(world, Repair.MARK_FAILED), Repaired)
    assert world.job(KEY).status is Status.READY
    assert world.order()["status"] == "payment_pending"
    outcome = world.run(world.outbox.sent.pop())

    assert is_failed(outcome)
    assert outcome.result["code"] == "resolved_by_operator"
    assert world.payments.intents["pi_1"].status == "canceled"
    assert (world.job(KEY).status, world.order()["status"]) == (Status.FAILED, "payment_failed")


@pytest.mark.parametrize("order", [{"amount": 9900}, {"status": "shipped_without_payment"}])
def test_mark_finished_conflicts_when_order_changed(order: dict[str, Any]) -> None:
    world = world_with_review_job()
    world.add_order(**order)
    before, row = world.job(KEY), world.order()

    dry = repair_job(world, Repair.MARK_FINISHED, reference="ch_1", dry_run=True)

    assert isinstance(dry, BusinessRowConflict)
    assert dry == repair_job(world, Repair.MARK_FINISHED, reference="ch_1")
    assert is_unchanged(world, before)
    assert world.order() == row


def test_mark_failed_is_allowed_when_order_is_missing() -> None:
    world = world_with_review_job()
    world.payments.complete("pi_1", status="refunded")
    world.rows.clear()

    outcome = repair_job(world, Repair.MARK_FINISHED, reference="ch_1")
    assert isinstance(outcome, BusinessRowConflict)
    assert isinstance(repair_job(world, Repair.MARK_FAILED), Repaired)


@pytest.mark.parametrize("order", [{}, {"charge_id": "ch_1"}], ids=["no charge id", "the same"])
def test_mark_finished_accepts_order_marked_paid(order: dict[str, Any]) -> None:
    world = world_with_review_job()
    world.add_order(status="paid", **order)
    assert isinstance(repair_job(world, Repair.MARK_FINISHED, reference="ch_1"), Repaired)


def test_mark_finished_conflicts_with_order_paid_by_hand() -> None:
    world = world_with_review_job()
    world.add_order(status="paid", charge_id="ch_by_hand")

    outcome = repair_job(world, Repair.MARK_FINISHED, reference="ch_1")

    assert isinstance(outcome, BusinessRowConflict), "the customer paid twice"
    assert "ch_by_hand" in outcome.reason
    assert "ch_1" in outcome.reason


@pytest.mark.parametrize(
    ("payment", "order"),
    [
        ("refunded", {"status": "paid", "charge_id": "ch_by_hand"}),
        ("canceled", {"status": "cancelled"}),
    ],
)
def test_mark_failed_keeps_order_when_payment_ended(payment: str, order: dict[str, Any]) -> None:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)
    world.payments.complete("pi_1", status=payment)
    world.add_order(**order)

    assert isinstance(repair_job(world, Repair.MARK_FAILED), Repaired)
    assert world.job(KEY).status is Status.FAILED
    assert world.order().items() >= order.items()


def test_mark_failed_conflicts_while_job_paid_its_order(world: InMemoryStack) -> None:
    world.run(charge_message())
    world.payments.complete("pi_1", status="refunded")
    done = world.job(KEY)
    contradicted = on_late_outcome(done, Declined("declined after all", "card_declined"), fence=1)
    world.store.swap(
        done, contradicted.apply_to(done, now=world.clock.now(), actor="a late worker")
    )

    dry = repair_job(world, Repair.MARK_FAILED, dry_run=True)

    assert isinstance(dry, BusinessRowConflict)
    assert dry == repair_job(world, Repair.MARK_FAILED)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (PROCEED, None),
        (AlreadyResolved[str](outcome=Succeeded("run before")), None),
        (Mismatch("another errand"), "another errand"),
        (AlreadyResolved[str](outcome=Anomalous("it was refunded")), "it was refunded"),
        (
            Proceed(facts=FACTS, values={"to": "the post office"}),
            "the business values changed since a worker first claimed it",
        ),
    ],
)
def test_business_rows_are_changed_when_precheck_differs(
    standing: PrecheckResult[str], why: str | None
) -> None:
    assert values_changed_since(make_job(fingerprint=fingerprint(PROCEED.values)), standing) == why


def world_with_review(checks: Callable[[], PrecheckResult[str]]) -> InMemoryStack:
    world = InMemoryStack(contracts=(errand_type(checks=checks),))
    values = fingerprint(PROCEED.values)
    named = {"job_key": ERRAND, "job_type": "errand.run", "message": MESSAGE}
    world.store.create(make_job(**named, status=Status.NEEDS_REVIEW, fingerprint=values))
    return world


def world_with_closing_job() -> InMemoryStack:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)
    repair_job(world, Repair.MARK_FAILED)
    return world


def test_mark_finished_applies_writes_of_resolved_precheck() -> None:
    noted = BusinessWrite(
        table="orders", key={"order_id": "7"}, set={"seen": True}, may_create=True
    )
    world = world_with_review(
        lambda: AlreadyResolved(outcome=Succeeded("run before"), writes=(noted,))
    )

    outcome = repair_job(world, Repair.MARK_FINISHED, key=ERRAND, reference="run_1")

    assert isinstance(outcome, Repaired)
    assert world.rows.get("orders", {"order_id": "7"}) == {"order_id": "7", "seen": True}


@pytest.mark.parametrize(
    ("checks", "why"),
    [
        (lambda: Mismatch("another errand"), "another errand"),
        (
            lambda: NotThereYet(waits_for="errand 7"),
            "it waits for errand 7",
        ),
    ],
)
def test_mark_finished_conflicts_without_matching_rows(
    checks: Callable[[], PrecheckResult[str]], why: str
) -> None:
    world = world_with_review(checks)
    outcome = repair_job(world, Repair.MARK_FINISHED, key=ERRAND, reference="run_1")
    fix = "fix them, or undo it at the provider and mark it as failed"
    assert outcome == BusinessRowConflict(f"{why}: {fix}")


@pytest.mark.parametrize(
    ("status", "other", "reason"),
    [("succeeded", False, "succeeded"), ("processing", False, "pi_1"), ("canceled", True, "pi_2")],
    ids=["paid", "pending", "paid by another payment"],
)
def test_mark_failed_fails_when_money_may_move(status: str, reason: str, *, other: bool) -> None:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)
    world.payments.complete("pi_1", status=status)
    if other:
        own = world.payments.intents["pi_1"].payment
        world.payments.intents["pi_2"] = StripeIntent("pi_2", own, "succeeded")
    before = world.job(KEY)

    outcome = repair_job(world, Repair.MARK_FAILED)

    assert isinstance(outcome, Contradicted)
    assert reason in outcome.reason
    assert is_unchanged(world, before)


def test_mark_failed_needs_reachable_provider() -> None:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)
    world.payments.fail_next("lookup_closed", ProviderFault.TIMEOUT_BEFORE)
    assert isinstance(repair_job(world, Repair.MARK_FAILED), ProviderUnavailable)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_mark_failed_itself_closes_nothing_at_provider() -> None:
    world = world_with_closing_job()
    assert world.payments.intents["pi_1"].status == "requires_confirmation"
    assert "close" not in {step for step, _ in world.payments.calls}


def test_lost_close_is_retried_without_confirming_payment() -> None:
    world = world_with_closing_job()
    world.payments.fail_next("close", ProviderFault.TIMEOUT_BEFORE)

    assert isinstance(world.run(world.outbox.sent.pop()), Unknown)

    assert world.run_until_idle(KEY).status is Status.FAILED
    assert world.payments.intents["pi_1"].status == "canceled"
    assert world.payments.charges == []


def test_payment_that_succeeds_before_close_finishes_job() -> None:
    world = world_with_closing_job()
    world.payments.complete("pi_1", status="succeeded")
    assert is_finished(world.run(world.outbox.sent.pop()))
    assert world.order()["status"] == "paid"


def test_open_payment_without_order_is_not_marked_failed() -> None:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)
    world.rows.clear()

    outcome = repair_job(world, Repair.MARK_FAILED)

    assert isinstance(outcome, BusinessRowConflict)
    assert "cancel it at Stripe" in outcome.reason


def test_close_needs_review_when_order_is_missing() -> None:
    world = world_with_closing_job()
    world.rows.clear()
    assert isinstance(world.run(world.outbox.sent.pop()), NeedsReview)
    assert world.payments.intents["pi_1"].status == "requires_confirmation"


def test_close_keeps_order_paid_by_hand() -> None:
    world = world_with_closing_job()
    world.add_order(status="paid", charge_id="ch_by_hand")

    assert is_failed(world.run(world.outbox.sent.pop()))
    assert (world.order()["status"], world.order()["charge_id"]) == ("paid", "ch_by_hand")
    assert world.payments.intents["pi_1"].status == "canceled"


def test_reopen_cancels_close_request() -> None:
    world = world_with_closing_job()
    world.clock.advance(hours=25)
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    world.clock.advance(minutes=1)

    assert isinstance(repair_job(world, Repair.REOPEN), Repaired)

    assert world.job(KEY).closing is None
