"""Only this job's own payment is confirmed, and its state resolves an error."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
import stripe

from oncely.core.effect_outcomes import Ambiguous, Anomalous, Json, NotSent, Prepared, Succeeded
from oncely.core.job_row import new_job
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.money import Money
from oncely.core.outcomes import NeedsReview
from oncely.providers.interfaces import Payment
from oncely.providers.stripe.payments import StripePayments, is_live_key
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished
from tests.support.stripe_account import StripeIntent

KEY = JobKey("payment.charge:order_18452")
OURS = Payment(
    money=Money(1250, "eur"), customer="cus_7", method="pm_card_visa", job_key=KEY, order_id="18452"
)
MESSAGE: dict[str, Json] = {"job": "payment.charge", "v": 1, "order_id": "18452"}
INTENT = {
    "id": "pi_1",
    "object": "payment_intent",
    "amount": 1250,
    "amount_received": 1250,
    "currency": "eur",
    "customer": "cus_7",
    "latest_charge": {"id": "ch_1", "object": "charge", "amount_refunded": 0, "disputed": False},
    "livemode": False,
    "metadata": {"job_key": KEY, "order_id": "18452"},
    "status": "succeeded",
}


class ScriptedStripe(stripe.HTTPClient):
    name = "scripted"

    def __init__(self, respond: Callable[[str, str], tuple[str, int]]) -> None:
        super().__init__()
        self.respond = respond

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        post_data: Any = None,  # noqa: ANN401  # as inherited
        *,
        _usage: list[str] | None = None,
    ) -> tuple[str, int, Mapping[str, str]]:
        del headers, post_data
        return *self.respond(method, url), {}


def scripted_payments(respond: Callable[[str, str], tuple[str, int]]) -> StripePayments:
    http = ScriptedStripe(respond)
    client = stripe.StripeClient("sk_test_1", http_client=http, max_network_retries=0)
    return StripePayments(client, livemode=False)


def payments_with_response(**changes: object) -> StripePayments:
    intent = {**INTENT, **changes}
    intents = {"object": "list", "url": "/", "has_more": False, "data": [intent]}

    def respond(method: str, url: str) -> tuple[str, int]:
        lists = method == "get" and urlsplit(url).path.endswith("/payment_intents")
        return json.dumps(intents if lists else intent), 200

    return scripted_payments(respond)


def add_forged_row(world: InMemoryStack) -> None:
    """A forged row with the reference of an intent that this job did not create."""
    row = new_job(
        KEY, "payment.charge", MESSAGE, now=START, due_at=START, actor="producer", reason="forged"
    )
    world.store.create(replace(row, provider_ref="pi_victim"))


@pytest.mark.parametrize(
    "changes",
    [
        {"job_key": JobKey("payment.charge:order_9")},
        {"customer": "cus_victim"},
        {"money": Money(9900, "eur")},
        {"money": Money(1250, "usd")},
    ],
)
def test_foreign_payment_needs_review_before_money_moves(changes: dict[str, Any]) -> None:
    world = InMemoryStack()
    world.add_order()
    world.payments.intents["pi_victim"] = StripeIntent("pi_victim", replace(OURS, **changes))
    add_forged_row(world)

    assert isinstance(world.run(charge_message()), NeedsReview)
    assert world.payments.charges == []
    assert world.payments.calls == [("lookup", "pi_victim")]
    assert world.order()["status"] == "payment_pending"
    assert world.alerts.sent


def test_payment_prepared_in_same_run_is_not_verified(world: InMemoryStack) -> None:
    assert is_finished(world.run(charge_message()))
    assert [step for step, _ in world.payments.calls] == ["prepare", "execute"]


def test_replayed_payment_is_verified_before_confirmation(world: InMemoryStack) -> None:
    """Such as after a restore: a replay shows the payment as it was created, not as it is now."""
    made = world.payments.prepare(OURS, idempotency_key=IdempotencyKey(f"{KEY}:create:1"))
    world.payments.intents[made.ref] = StripeIntent(made.ref, replace(OURS, customer="cus_victim"))

    assert isinstance(world.run(charge_message()), NeedsReview)
    assert world.payments.charges == []
    assert world.payments.calls[-1] == ("lookup", made.ref)


OTHERS = [
    {"metadata": {"job_key": "payment.charge:order_9"}},
    {"metadata": {}},
    {"metadata": {"job_key": KEY, "deployment": "staging"}},
    {"customer": "cus_victim"},
    {"customer": None},
    {"amount": 9900},
    {"currency": "usd"},
    {"livemode": True},
]


@pytest.mark.parametrize("changes", OTHERS)
def test_foreign_intent_is_anomaly_in_every_stripe_response(changes: dict[str, object]) -> None:
    provider = payments_with_response(**changes)
    key = IdempotencyKey("k")

    answers = [
        provider.prepare(OURS, idempotency_key=key),
        provider.execute("pi_1", OURS, idempotency_key=key),
        provider.execute("pi_1", OURS, idempotency_key=key, verified=True),
        provider.lookup("pi_1", OURS),
    ]

    assert all(isinstance(answer, Anomalous) for answer in answers), answers


def test_own_intent_is_no_anomaly() -> None:
    provider = payments_with_response()
    assert isinstance(provider.prepare(OURS, idempotency_key=IdempotencyKey("k")), Prepared)
    executed = provider.execute("pi_1", OURS, idempotency_key=IdempotencyKey("k"))
    assert isinstance(executed, Succeeded)


@pytest.mark.parametrize(
    ("api_key", "livemode"),
    [
        ("sk_live_51", True),
        ("rk_live_51", True),
        ("sk_test_51", False),
        ("rk_test_51", False),
        ("sk_org_live_51", True),
        ("sk_51", None),
        ("", None),
    ],
)
def test_api_key_prefix_determines_livemode(api_key: str, *, livemode: bool | None) -> None:
    assert is_live_key(api_key) is livemode


def confirm_outcome(status: int, code: str, state: str | None) -> object:
    error = json.dumps({"error": {"code": code, "message": code}}), status
    received = 1250 if state == "succeeded" else 0
    unread = {"last_payment_error": None, "latest_charge": None}
    intent = {**INTENT, **unread, "amount_received": received, "status": state}
    read = error if state is None else (json.dumps(intent), 200)
    payments = scripted_payments(lambda method, _: read if method.lower() == "get" else error)
    key = IdempotencyKey("confirm:1")
    return payments.execute("pi_1", OURS, idempotency_key=key, verified=True)


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
