"""The sandbox rejects invalid requests with Stripe's error codes."""

from typing import Any

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


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"amount": 0}, "parameter_invalid_integer"),
        ({"amount": -5}, "parameter_invalid_integer"),
        ({"amount": "49.00"}, "parameter_invalid_integer"),
        ({"currency": "EUR"}, None),
        ({"colour": "red"}, "parameter_unknown"),
        ({"off_session": True}, None),
        ({"customer": "cus_missing_1"}, "resource_missing"),
        ({"payment_method": "pm_missing"}, "resource_missing"),
        ({"payment_method_types": ["card"]}, "payment_method_types_no_longer_supported"),
    ],
)
def test_invalid_parameter_is_named(
    sandbox: ShippedSandbox, intents: Intents, change: dict[str, Any], code: str | None
) -> None:
    order: Any = {**ORDER, **change}

    with pytest.raises(stripe.InvalidRequestError) as refused:
        intents.create(order)

    error = refused.value
    assert (error.http_status, error.code, [error.param]) == (400, code, [*change])
    assert sandbox.stripe.ledger.intents == ()


def test_intent_with_redirects_requires_return_url(intents: Intents) -> None:
    order: Any = {name: value for name, value in CHARGE.items() if name[:9] != "automatic"}
    with pytest.raises(stripe.InvalidRequestError) as refused:
        intents.create(order)
    assert refused.value.param == "return_url"


def test_unknown_intent_is_not_found(intents: Intents) -> None:
    with pytest.raises(stripe.InvalidRequestError) as refused:
        intents.retrieve("pi_nowhere")
    assert (refused.value.http_status, refused.value.code) == (404, "resource_missing")


def test_live_api_key_is_rejected(sandbox: ShippedSandbox) -> None:
    with pytest.raises(stripe.AuthenticationError):
        client_for_sandbox(sandbox, api_key="sk_live_1").v1.payment_intents.create(ORDER)
    assert sandbox.stripe.ledger.intents == ()


def test_read_only_api_key_cannot_write(sandbox: ShippedSandbox, intents: Intents) -> None:
    reader = client_for_sandbox(sandbox, api_key="sk_test_restricted_read").v1.payment_intents
    intent = intents.create(ORDER)
    assert reader.retrieve(intent.id).id == intent.id
    with pytest.raises(stripe.PermissionError):
        reader.confirm(intent.id, CONFIRM)
