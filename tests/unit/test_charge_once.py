"""A payment run that goes well, or is repeated: one charge, one answer."""

import pytest

from oncely.domain.lifecycle import Status
from oncely.run.outcomes import Duplicate, Failed, Finished, NeedsReview
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.payments import PaymentFault

KEY = "payment.charge:order_18452"


def test_successful_charge_finishes_job_and_pays_order() -> None:
    world = InMemoryStack()
    world.add_order()

    outcome = world.run(charge_message())

    assert isinstance(outcome, Finished)
    assert outcome.result["charge_id"] == world.order()["charge_id"] == "ch_pi_1"
    assert world.order()["status"] == "paid"
    assert "charge_requested_at" not in world.order()
    assert world.job(KEY).status is Status.FINISHED
    assert world.job(KEY).due_at is not None, "a receipt is owed"
    assert world.job(KEY).expires_at is None


def test_duplicate_message_charges_once_and_repeats_result() -> None:
    world = InMemoryStack()
    world.add_order()
    first = world.run(charge_message())

    second = world.run(charge_message())

    assert isinstance(first, Finished)
    assert isinstance(second, Duplicate)
    assert second.result == first.result
    assert world.payments.charges == ["pi_1"]


def test_reference_is_saved_before_money_moves() -> None:
    world = InMemoryStack()
    world.add_order()

    world.run(charge_message())

    kept, confirmed = world.job(KEY).evidence
    assert (kept.event, confirmed.event) == ("checkpoint", "confirm")
    assert [step for step, _ in world.payments.calls] == ["prepare", "execute"]


def test_idempotency_key_is_job_key_step_and_number() -> None:
    world = InMemoryStack()
    world.add_order()

    world.run(charge_message())

    assert world.payments.calls == [("prepare", f"{KEY}:create:1"), ("execute", f"{KEY}:confirm:1")]


def test_declined_card_fails_job_and_order() -> None:
    world = InMemoryStack()
    world.add_order()
    world.payments.declines = True

    outcome = world.run(charge_message())

    assert isinstance(outcome, Failed)
    assert outcome.result["code"] == "card_declined"
    assert world.order()["status"] == "payment_failed"
    assert isinstance(world.run(charge_message()), Duplicate)


def test_card_declined_on_prepare_fails_order() -> None:
    world = InMemoryStack()
    world.add_order()
    world.payments.fail_next("prepare", PaymentFault.DECLINED)

    outcome = world.run(charge_message())

    assert isinstance(outcome, Failed)
    assert world.order()["status"] == "payment_failed"
    assert "charge_requested_at" not in world.order(), "else it is looked for in every sweep"


@pytest.mark.parametrize("status", ["cancelled", "refunded", None])
def test_order_that_cannot_become_paid_is_not_charged(status: str | None) -> None:
    world = InMemoryStack()
    world.add_order(status=status)

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert f"its status is {status}" in world.alerts.sent[0].text
    assert world.payments.calls == []


def test_order_cancelled_after_charge_needs_review_with_charge() -> None:
    world = InMemoryStack()
    world.add_order()
    world.payments.fail_next("execute", PaymentFault.TIMEOUT_AFTER)
    world.run(charge_message())
    world.add_order(status="cancelled")

    world.reconcile(KEY)

    job = world.job(KEY)
    assert job.status is Status.NEEDS_REVIEW
    assert (job.result or {})["charge_id"] == "ch_pi_1"
    assert world.order()["status"] == "cancelled"


def test_missing_order_needs_review_and_alerts() -> None:
    world = InMemoryStack()

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert "does not exist" in world.alerts.sent[0].text
    assert world.payments.calls == []


def test_unchargeable_order_needs_review_before_any_call() -> None:
    world = InMemoryStack()
    world.add_order("no-method", payment_method=None)
    world.add_order("no-amount", amount=0)

    outcomes = [world.run(charge_message("no-method")), world.run(charge_message("no-amount"))]

    assert all(isinstance(outcome, NeedsReview) for outcome in outcomes)
    assert world.payments.calls == []


def test_paid_order_finishes_with_its_charge_without_any_call() -> None:
    world = InMemoryStack()
    world.add_order(status="paid", charge_id="ch_from_elsewhere")

    outcome = world.run(charge_message())

    assert isinstance(outcome, Finished)
    assert outcome.result["charge_id"] == "ch_from_elsewhere"
    assert world.payments.calls == []
