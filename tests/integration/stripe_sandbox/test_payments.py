"""The sandbox processes payments as Stripe does."""

import pytest
import stripe

from tests.integration.stripe_sandbox.sandbox_client import (
    CHARGE,
    CONFIRM,
    ORDER,
    Intents,
    client_for_sandbox,
)
from tests.support.shipped_sandbox import ShippedSandbox


def test_unconfirmed_intent_moves_no_money(sandbox: ShippedSandbox, intents: Intents) -> None:
    intent = intents.create(ORDER)
    assert (intent.status, sandbox.stripe.ledger.charges) == ("requires_confirmation", ())
    assert intent.last_response is not None
    assert intent.last_response.request_id == sandbox.ledger.requests[-1].request_id


def test_confirm_returns_its_only_charge(sandbox: ShippedSandbox, intents: Intents) -> None:
    intent = intents.confirm(intents.create(ORDER).id, {**CONFIRM, "expand": ["latest_charge"]})

    (charge,) = sandbox.stripe.ledger.charges_for("18452")
    assert intent.status == "succeeded"
    assert isinstance(intent.latest_charge, stripe.Charge)
    assert intent.latest_charge.id == charge.charge_id
    assert (charge.amount, charge.currency, charge.customer) == (4900, "eur", "cus_1")


@pytest.mark.parametrize("step", ["confirm", "cancel"])
def test_paid_intent_can_be_neither_confirmed_nor_canceled(
    sandbox: ShippedSandbox, intents: Intents, step: str
) -> None:
    paid = intents.create(CHARGE)
    with pytest.raises(stripe.InvalidRequestError) as refused:
        getattr(intents, step)(paid.id)
    assert refused.value.code == "payment_intent_unexpected_state"
    assert len(sandbox.stripe.ledger.charges) == 1


def test_canceled_intent_never_takes_money(sandbox: ShippedSandbox, intents: Intents) -> None:
    canceled = intents.cancel(intents.create(ORDER).id)

    with pytest.raises(stripe.InvalidRequestError) as refused:
        intents.confirm(canceled.id, CONFIRM)

    assert canceled.status == "canceled"
    assert refused.value.code == "payment_intent_unexpected_state"
    assert sandbox.stripe.ledger.charges == ()


@pytest.mark.parametrize(
    ("payment_method", "code", "decline_code"),
    [
        ("pm_card_chargeDeclined", "card_declined", "generic_decline"),
        ("pm_card_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds"),
        ("pm_card_authenticationRequired", "authentication_required", "authentication_required"),
    ],
)
def test_decline_says_why_and_leaves_intent_open(
    sandbox: ShippedSandbox, intents: Intents, payment_method: str, code: str, decline_code: str
) -> None:
    intent = intents.create({**ORDER, "payment_method": payment_method})

    with pytest.raises(stripe.CardError) as declined:
        intents.confirm(intent.id, CONFIRM)

    error = declined.value.error
    assert error is not None
    assert error.payment_intent is not None
    assert (error.code, error.decline_code) == (code, decline_code)
    assert error.payment_intent.status == "requires_payment_method"
    assert intents.retrieve(intent.id).last_payment_error is not None
    assert sandbox.stripe.ledger.charges == ()


def test_on_session_confirm_requires_action(sandbox: ShippedSandbox, intents: Intents) -> None:
    intent = intents.create({**ORDER, "payment_method": "pm_card_authenticationRequired"})
    assert intents.confirm(intent.id).status == "requires_action"
    sandbox.stripe.complete_pending(intent.id, succeeded=True)
    assert intents.retrieve(intent.id).status == "succeeded"


@pytest.mark.parametrize("succeeded", [True, False])
def test_processing_payment_ends_when_completed(
    sandbox: ShippedSandbox, intents: Intents, *, succeeded: bool
) -> None:
    intent = intents.create({**CHARGE, "payment_method": "pm_processing"})
    assert (intent.status, sandbox.stripe.ledger.charges) == ("processing", ())

    sandbox.stripe.complete_pending(intent.id, succeeded=succeeded)

    status = "succeeded" if succeeded else "requires_payment_method"
    assert intents.retrieve(intent.id).status == status
    assert len(sandbox.stripe.ledger.charges) == int(succeeded)


def test_refund_is_visible_on_charge(sandbox: ShippedSandbox, intents: Intents) -> None:
    intent = intents.create(CHARGE)
    refunds = client_for_sandbox(sandbox).v1.refunds

    refunds.create({"payment_intent": intent.id})

    charge = intents.retrieve(intent.id, {"expand": ["latest_charge"]}).latest_charge
    assert isinstance(charge, stripe.Charge)
    assert charge.refunded
    with pytest.raises(stripe.InvalidRequestError, match="already been refunded"):
        refunds.create({"payment_intent": intent.id})


def test_list_pages_customer_intents_newest_first(intents: Intents) -> None:
    mine = [intents.create(ORDER).id for _ in range(3)]
    intents.create({**ORDER, "customer": "cus_2"})
    page = intents.list({"customer": "cus_1", "limit": 2})
    assert [one.id for one in page.auto_paging_iter()] == mine[::-1]
    assert page.has_more
