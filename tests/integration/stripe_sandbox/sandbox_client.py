"""Clients of the sandbox, orders, and a clock that tests move."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import stripe
from stripe.params import PaymentIntentConfirmParams, PaymentIntentCreateParams

from tests.support.shipped_sandbox import ShippedSandbox

Intents = stripe.PaymentIntentService

ORDER: PaymentIntentCreateParams = {
    "amount": 4900,
    "currency": "eur",
    "customer": "cus_1",
    "payment_method": "pm_card_visa",
    "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
    "metadata": {"job_key": "payment.charge:order_18452", "order_id": "18452"},
}
CONFIRM: PaymentIntentConfirmParams = {"off_session": True, "error_on_requires_action": True}
CHARGE: PaymentIntentCreateParams = {**ORDER, "confirm": True, **CONFIRM}  # type: ignore[typeddict-item]  # a subset
INTENTS = "/v1/payment_intents"
CONFIRMS = "/v1/payment_intents/*/confirm"


class CallableClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 11, 16, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **by: float) -> None:
        self.time += timedelta(**by)


def client_for_sandbox(
    sandbox: ShippedSandbox, *, api_key: str = "sk_test_oncely", timeout_seconds: float = 5.0
) -> stripe.StripeClient:
    return stripe.StripeClient(
        api_key,
        max_network_retries=0,
        base_addresses={"api": sandbox.url},
        http_client=stripe.RequestsClient(timeout=(1.0, timeout_seconds)),
    )


def keyed(key: str) -> stripe.RequestOptions:
    return {"idempotency_key": key}


def error_code(error: stripe.StripeError) -> str | None:
    return error.error.code if error.error else None


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5.0
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def was_replayed(intent: stripe.PaymentIntent) -> bool:
    assert intent.last_response is not None
    return intent.last_response.headers.get("Idempotent-Replayed") == "true"
