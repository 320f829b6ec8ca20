"""An error on the confirmation is resolved by the payment's own state."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import stripe

from oncely.domain.effect_outcomes import Ambiguous, NotSent, Succeeded
from oncely.domain.keys import IdempotencyKey, JobKey
from oncely.domain.money import Money
from oncely.providers.interfaces import Payment
from oncely.providers.stripe.payments import StripePayments

PAYMENT = Payment(
    money=Money(1250, "eur"),
    customer="cus_7",
    method="pm_card_visa",
    job_key=JobKey("payment.charge:order_18452"),
    order_id="18452",
)


def intent_body(status: str) -> dict[str, object]:
    return {
        "id": "pi_1",
        "object": "payment_intent",
        "amount": 1250,
        "amount_received": 1250 if status == "succeeded" else 0,
        "currency": "eur",
        "customer": "cus_7",
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": False,
        "metadata": {"job_key": PAYMENT.job_key},
        "status": status,
    }


class ScriptedStripe(stripe.HTTPClient):
    name = "scripted"

    def __init__(self, status: int, code: str, state: str | None) -> None:
        super().__init__()
        self.error = json.dumps({"error": {"code": code, "message": code}}), status
        self.read = self.error if state is None else (json.dumps(intent_body(state)), 200)

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        post_data: Any = None,  # noqa: ANN401  # as inherited
        *,
        _usage: list[str] | None = None,
    ) -> tuple[str, int, Mapping[str, str]]:
        del url, headers, post_data
        body, status = self.read if method.lower() == "get" else self.error
        return body, status, {}


def confirm_outcome(status: int, code: str, state: str | None) -> object:
    http = ScriptedStripe(status, code, state)
    client = stripe.StripeClient("sk_test_1", http_client=http, max_network_retries=0)
    key = IdempotencyKey("confirm:1")
    payments = StripePayments(client, livemode=False)
    return payments.execute("pi_1", PAYMENT, idempotency_key=key, verified=True)


REJECTED = [(401, "invalid_api_key"), (403, "more_permissions_required")]
LOCKED = (429, "lock_timeout")


@pytest.mark.parametrize(
    ("status", "code", "state", "expected"),
    [
        *((*error, "succeeded", Succeeded) for error in (*REJECTED, LOCKED)),
        *((*error, "requires_confirmation", NotSent) for error in REJECTED),
        (*LOCKED, "requires_confirmation", Ambiguous),
        *((*error, None, Ambiguous) for error in (*REJECTED, LOCKED)),
        (429, "rate_limit", None, NotSent),
    ],
)
def test_confirm_error_is_resolved_by_payment_state(
    status: int, code: str, state: str | None, expected: type
) -> None:
    outcome = confirm_outcome(status, code, state)
    assert isinstance(outcome, expected)
    if isinstance(outcome, NotSent):
        assert outcome.credentials_rejected is (status != 429)
