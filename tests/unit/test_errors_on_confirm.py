"""What an error on the confirmation says: nothing, until the payment's own state was read."""

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
REFUSED = {401: "invalid_api_key", 403: "more_permissions_required"}


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
    """Answers the confirmation with an error, and a read with a state or that error."""

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
    provider = StripePayments(client, livemode=False)
    return provider.execute(
        "pi_1", PAYMENT, idempotency_key=IdempotencyKey("confirm:1"), verified=True
    )


@pytest.mark.parametrize(("status", "code"), REFUSED.items())
def test_rejected_api_key_means_success_when_payment_succeeded(status: int, code: str) -> None:
    assert isinstance(confirm_outcome(status, code, "succeeded"), Succeeded)


@pytest.mark.parametrize(("status", "code"), REFUSED.items())
def test_rejected_api_key_means_not_sent_when_unconfirmed(status: int, code: str) -> None:
    answer = confirm_outcome(status, code, "requires_confirmation")

    assert isinstance(answer, NotSent)
    assert answer.credentials_rejected


@pytest.mark.parametrize(("status", "code"), REFUSED.items())
def test_rejected_api_key_is_ambiguous_without_payment_state(status: int, code: str) -> None:
    assert isinstance(confirm_outcome(status, code, None), Ambiguous)


@pytest.mark.parametrize(("state", "expected"), [("succeeded", Succeeded), (None, Ambiguous)])
def test_lock_timeout_is_resolved_by_payment_state(state: str | None, expected: type) -> None:
    assert isinstance(confirm_outcome(429, "lock_timeout", state), expected)


def test_lock_timeout_is_ambiguous_while_payment_is_unconfirmed() -> None:
    assert isinstance(confirm_outcome(429, "lock_timeout", "requires_confirmation"), Ambiguous)


def test_rate_limit_means_not_sent() -> None:
    assert isinstance(confirm_outcome(429, "rate_limit", None), NotSent)
