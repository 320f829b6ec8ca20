"""A payment job that succeeds, fails or is repeated charges once and has one result."""

import pytest

from oncely.core.effect_outcomes import Declined
from oncely.core.lifecycle import Status
from oncely.core.outcomes import NeedsReview
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_duplicate, is_failed, is_finished

KEY = "payment.charge:order_18452"


def test_successful_charge_finishes_job_and_pays_order(world: InMemoryStack) -> None:
    outcome = world.run(charge_message())

    assert is_finished(outcome)
    assert outcome.result["charge_id"] == world.order()["charge_id"] == "ch_1"
    assert world.order()["status"] == "paid"
    assert "charge_requested_at" not in world.order()
    job = world.job(KEY)
    assert (job.status, job.expires_at) == (Status.FINISHED, None)
    assert job.due_at is not None, "its receipt is not sent yet"


def test_duplicate_message_charges_once_and_repeats_result(world: InMemoryStack) -> None:
    first, second = world.run(charge_message()), world.run(charge_message())

    assert is_finished(first)
    assert is_duplicate(second)
    assert second.result == first.result
    assert world.payments.charges == ["pi_1"]


def test_reference_is_saved_before_money_moves(world: InMemoryStack) -> None:
    world.run(charge_message())
    assert [entry.event for entry in world.job(KEY).evidence] == ["checkpoint", "confirm"]
    # Each key is the job key, the step and its number.
    assert world.payments.calls == [("prepare", f"{KEY}:create:1"), ("execute", f"{KEY}:confirm:1")]


def test_card_declined_on_prepare_fails_order(world: InMemoryStack) -> None:
    # As Braintree does. Stripe declines only a confirmation.
    declined = Declined("card_declined: generic_decline", code="card_declined")
    world.payments.prepare = lambda *_, **__: declined
    assert is_failed(world.run(charge_message()))
    assert world.order()["status"] == "payment_failed"
    assert "charge_requested_at" not in world.order(), "else every sweep would find it"


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ({"status": "cancelled"}, "its status is cancelled"),
        ({"status": "refunded"}, "its status is refunded"),
        ({"status": None}, "its status is None"),
        ({"amount": 0}, "whole number of minor units above 0"),
        ({"payment_method": None}, "payment_method is missing"),
    ],
)
def test_unchargeable_order_needs_review_before_any_call(
    order: dict[str, object], reason: str
) -> None:
    world = InMemoryStack()
    world.add_order(**order)  # type: ignore[arg-type]  # fields by name

    assert isinstance(world.run(charge_message()), NeedsReview)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert reason in world.alerts.sent[0].text
    assert world.payments.calls == []
