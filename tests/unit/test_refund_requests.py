"""payment.refund: a message asks, and only the shop's refund request authorizes."""

from datetime import timedelta
from typing import Any

import pytest

from oncely.core.lifecycle import Event, Status
from oncely.core.outcomes import NeedsReview
from oncely.core.text import format_time
from tests.support.in_memory_stack import InMemoryStack, charge_message, refund_message
from tests.support.outcomes import is_conflict, is_duplicate, is_finished, waits_for_rows
from tests.support.provider_fault import ProviderFault

CHARGE_ID = "ch_1"
KEY = "payment.refund:order_18452:rma_1"


@pytest.fixture
def paid(world: InMemoryStack) -> InMemoryStack:
    """An order of 12.50 EUR that is paid."""
    assert is_finished(world.run(charge_message()))
    world.outbox.sent.clear()
    return world


def pass_grace_period(world: InMemoryStack, key: str) -> Status:
    end = world.clock.now() + timedelta(days=31)
    while world.job(key).status is Status.READY and world.clock.now() < end:
        world.clock.time = world.job(key).due_at or end
        world.reconcile(key)
        while world.outbox.sent:
            world.run(world.outbox.sent.pop(0))
    return world.job(key).status


def test_messages_alone_refund_nothing(paid: InMemoryStack) -> None:
    asked = [refund_message("a", amount=800), refund_message("b"), refund_message("c", amount=1)]

    assert [waits_for_rows(paid.run(one)) for one in asked] == [True] * 3

    for refund_id in ("a", "b", "c"):
        key = f"payment.refund:order_18452:{refund_id}"
        assert pass_grace_period(paid, key) is Status.NEEDS_REVIEW
        waited = f"waited 30 days for refund request {refund_id} of order 18452 to exist"
        assert (paid.job(key).last_error, paid.job(key).awaits_message) == (waited, True)
    assert not [step for step, _ in paid.payments.calls if "refund" in step]
    assert paid.rows.get("refunds", {"charge_id": CHARGE_ID}) is None
    assert len(paid.alerts.sent) == 3


def test_request_authorizes_message_that_came_before_it(paid: InMemoryStack) -> None:
    assert waits_for_rows(paid.run(refund_message()))
    (view,) = [one for one in paid.inspector().search("18452").jobs if one.job.job_key == KEY]
    assert "waits for refund request rma_1 of order 18452 to exist" in view.headline

    paid.request_refund(amount=800)

    assert paid.run_until_idle(KEY).status is Status.FINISHED
    assert paid.payments.refunded(CHARGE_ID) == 800


@pytest.mark.parametrize("other", [{"amount": 801}, {"currency": "usd"}], ids=str)
def test_message_that_differs_from_request_is_rejected(
    paid: InMemoryStack, other: dict[str, Any]
) -> None:
    paid.request_refund(amount=800)
    assert is_conflict(paid.run(refund_message(**other)))
    assert paid.payments.refunds == {}
    assert len(paid.alerts.sent) == 1
    assert is_finished(paid.run(refund_message(amount=800, currency="EUR")))


def test_request_of_another_order_does_not_authorize(paid: InMemoryStack) -> None:
    paid.request_refund(order_id="777")
    assert waits_for_rows(paid.run(refund_message()))
    assert paid.payments.refunds == {}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"amount": 0}, "an amount is a whole number of minor units above 0"),
        ({"amount": "800"}, "an amount is a whole number"),
        ({"amount": None}, "an amount is a whole number"),
        ({"currency": "euro"}, "a currency is three letters"),
        ({"requested_by": ""}, "requested_by is missing"),
        ({"requested_by": None}, "requested_by is missing"),
        ({"requested_at": None}, "requested_at: a time is ISO text"),
        ({"requested_at": "yesterday"}, "requested_at: a time is ISO text"),
    ],
    ids=str,
)
def test_invalid_request_needs_review(
    paid: InMemoryStack, row: dict[str, Any], reason: str
) -> None:
    outcome = paid.run(paid.request_refund(**row))
    assert isinstance(outcome, NeedsReview)
    assert f"refund request rma_1 of order 18452 is not valid: {reason}" in outcome.reason
    assert paid.payments.refunds == {}


def test_request_in_another_currency_than_its_order_needs_review(paid: InMemoryStack) -> None:
    outcome = paid.run(paid.request_refund(currency="usd"))
    assert isinstance(outcome, NeedsReview)
    assert "its currency is 'eur', and refund request rma_1 has usd" in outcome.reason
    assert paid.payments.refunds == {}


def test_request_of_the_future_waits_for_its_time(paid: InMemoryStack) -> None:
    at = paid.clock.now() + timedelta(days=2)
    outcome = paid.run(paid.request_refund(requested_at=format_time(at)))

    assert waits_for_rows(outcome)
    assert "the time of refund request rma_1 of order 18452" in outcome.reason
    assert paid.run_until_idle(KEY, steps=200).status is Status.FINISHED
    assert paid.clock.now() >= at - timedelta(minutes=1)


def test_shop_clock_that_is_ahead_holds_no_refund(paid: InMemoryStack) -> None:
    ahead = format_time(paid.clock.now() + timedelta(seconds=50))
    assert is_finished(paid.run(paid.request_refund(requested_at=ahead)))


CHANGES = [
    {"amount": 900},
    {"requested_by": "agent_4"},
    {"requested_at": "2026-11-02T09:00:00Z"},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_request_that_changed_after_the_claim_is_a_conflict(
    paid: InMemoryStack, change: dict[str, Any]
) -> None:
    assert is_finished(paid.run(paid.request_refund(amount=800)))

    outcome = paid.run(paid.request_refund(**{"amount": 800, **change}))

    assert is_conflict(outcome)
    assert outcome.alerted
    assert paid.payments.refunded(CHARGE_ID) == 800
    assert is_duplicate(paid.run(paid.request_refund(amount=800)))


@pytest.mark.parametrize("change", [*CHANGES, {"currency": "usd"}], ids=str)
@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_AFTER, ProviderFault.TIMEOUT_BEFORE])
def test_unknown_refund_whose_request_changed_needs_review(
    paid: InMemoryStack, change: dict[str, Any], fault: ProviderFault
) -> None:
    paid.payments.fail_next("refund", fault)
    paid.run(paid.request_refund(amount=800))
    made = paid.payments.refunded(CHARGE_ID)
    paid.request_refund(**{"amount": 800, **change})

    job = paid.run_until_idle(KEY)

    assert job.status is Status.NEEDS_REVIEW
    assert (job.amount, paid.payments.refunded(CHARGE_ID)) == (800, made)
    assert len([step for step, _ in paid.payments.calls if step == "refund"]) == 1
    assert paid.alerts.sent


def test_withdrawn_request_stops_a_refund_that_was_not_sent(paid: InMemoryStack) -> None:
    paid.payments.fail_next("refund", ProviderFault.REFUSED_CONNECTION)
    paid.run(paid.request_refund())
    paid.rows.delete("refund_requests", {"order_id": "18452", "refund_id": "rma_1"})

    assert paid.run_until_idle(KEY).status is Status.NEEDS_REVIEW
    assert paid.payments.refunds == {}


def test_job_shows_who_requested_the_refund(paid: InMemoryStack) -> None:
    paid.run(paid.request_refund(amount=800, requested_by="agent_9"))
    (reserved,) = [one for one in paid.job(KEY).evidence if one.event is Event.CHECKPOINT]
    assert reserved.reason == f"reserved 8.00 EUR of {CHARGE_ID}, requested by agent_9"
