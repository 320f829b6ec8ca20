"""The HTTPS endpoint: only what Stripe signed just now gets any further."""

import base64
import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from moto import mock_aws
from stripe import WebhookSignature

from oncely.core.errors import NotConfiguredError
from oncely.handlers import receive_webhook
from oncely.plugins.events import webhook_source
from oncely.providers.stripe.plugin import STRIPE
from oncely.reconcile.webhooks import Webhook, WebhookReceiver, WebhookResponse
from tests.support.fakes import FakeMessageSender
from tests.support.stripe_events import ACCOUNT, EMAIL, stripe_event

OLD, NEW, OTHER = "whsec_old", "whsec_new", "whsec_other"
EVENT = json.dumps(stripe_event("payment_intent.succeeded", "pi_1"))


class Endpoint:
    """A receiver whose secret reads and messages are counted."""

    def __init__(self, secret: str = NEW) -> None:
        self.secret = secret
        self.secret_reads = 0
        self.queue: Any = FakeMessageSender()
        rules = STRIPE.webhook_rules(STRIPE.settings_type(webhook=True))
        self.receiver = WebhookReceiver(
            webhooks={"stripe": Webhook(plugin=STRIPE, rules=rules)},
            account=ACCOUNT,
            secret=self._read_secret,
            sender=lambda: self.queue,
        )

    def _read_secret(self, name: str) -> str:
        assert name == "stripe_webhook"
        self.secret_reads += 1
        if not self.secret:
            raise NotConfiguredError(
                "the secret 'stripe_webhook' is empty: store the API key in it"
            )
        return self.secret

    def post(self, body: str = EVENT, signature: str | None = None, **more: Any) -> WebhookResponse:  # noqa: ANN401  # by name
        headers = {} if signature is None else {"stripe-signature": signature}
        return self.receiver.receive(more.pop("provider", "stripe"), body, headers, **more)


def sign(body: str = EVENT, *, secret: str = NEW, age: int = 0) -> str:
    at = int(time.time()) - age
    return str(WebhookSignature.generate_signature_header(body, secret, at))


def test_signed_event_is_queued_with_ids_only() -> None:
    endpoint = Endpoint()
    assert endpoint.post(signature=sign()) is WebhookResponse.ACCEPTED
    (body,) = endpoint.queue.sent
    assert json.loads(body)["source"] == webhook_source("stripe")
    assert (json.loads(body)["account"], EMAIL in body) == (ACCOUNT, False)


@pytest.mark.parametrize("secret", [OLD, NEW])
def test_both_secrets_count_while_one_is_rotated(secret: str) -> None:
    endpoint = Endpoint(f"{NEW}, {OLD}")
    assert endpoint.post(signature=sign(secret=secret)) is WebhookResponse.ACCEPTED
    assert (
        endpoint.post(signature=sign(secret="whsec_other")) is WebhookResponse.REFUSED
    )  # not a secret


def unsigned_requests() -> Iterator[tuple[str, str]]:
    yield EVENT, sign(secret=OLD)
    yield EVENT, sign(age=301)
    yield EVENT, sign(age=-400)
    yield EVENT, sign(EVENT + " ")
    yield from ((EVENT, header) for header in ("", "t=1,v1=", "t=x,v1=y", "t=1,v1=é", "v1=a"))
    yield EVENT, "t=99999999999999999999,v1=aa"
    yield "\ud800", "t=1,v1=aa"
    yield from ((body, sign(body)) for body in ("[]", "not json", "[" * 100_000))


def test_what_is_not_signed_just_now_is_refused() -> None:
    endpoint = Endpoint()
    for body, signature in unsigned_requests():
        assert endpoint.post(body, signature) is WebhookResponse.REFUSED, signature
    assert endpoint.queue.sent == []


def test_unsigned_requests_cost_nothing() -> None:
    endpoint = Endpoint()
    for _ in range(1000):
        assert endpoint.post() is WebhookResponse.REFUSED
    assert (endpoint.secret_reads, endpoint.queue.sent) == (0, [])


def test_large_body_is_refused_before_it_is_read() -> None:
    endpoint = Endpoint()
    body = "x" * 10_000_000
    assert endpoint.post(body, "t=1,v1=aa") is WebhookResponse.TOO_LARGE
    assert (endpoint.secret_reads, endpoint.queue.sent) == (0, [])


@pytest.mark.parametrize(
    "event",
    [
        stripe_event("customer.created", "cus_1"),
        stripe_event("payment_intent.succeeded", "pi_1", deployment=None),
        stripe_event("payment_intent.succeeded", "pi_1", account="acct_1"),
        {},
    ],
)
def test_event_that_is_not_ours_is_accepted_and_dropped(event: dict[str, Any]) -> None:
    endpoint, body = Endpoint(), json.dumps(event)
    assert endpoint.post(body, sign(body)) is WebhookResponse.ACCEPTED
    assert endpoint.queue.sent == []


def test_stripe_repeats_what_could_not_be_queued() -> None:
    endpoint = Endpoint()
    endpoint.queue.fails_at = frozenset({0})
    assert endpoint.post(signature=sign()) is WebhookResponse.UNAVAILABLE
    assert Endpoint("").post(signature=sign()) is WebhookResponse.UNAVAILABLE


def test_api_gateway_may_encode_the_body() -> None:
    endpoint, encoded = Endpoint(), base64.b64encode(EVENT.encode()).decode()
    assert endpoint.post(encoded, sign(), is_base64=True) is WebhookResponse.ACCEPTED
    assert endpoint.post("%%%", sign(), is_base64=True) is WebhookResponse.REFUSED


def test_provider_without_an_endpoint_is_not_found() -> None:
    assert Endpoint().post(signature=sign(), provider="acme") is WebhookResponse.NOT_FOUND


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    environment = {
        "EVENT_ACCOUNT": ACCOUNT,
        "AWS_DEFAULT_REGION": "eu-central-1",
        "ONCELY_JOBS": "oncely.jobs.payment_charge:PaymentCharge",
        "QUEUE_NAME": "events",
        "QUEUE_URL": "https://sqs.eu-central-1.amazonaws.com/123456789012/events",
        "STRIPE_WEBHOOK": "true",
        "STRIPE_WEBHOOK_SECRET": "signing",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    receive_webhook.get_receiver.cache_clear()
    with mock_aws():
        yield receive_webhook.handler
    receive_webhook.get_receiver.cache_clear()


def test_handler_refuses_before_it_calls_aws(handler: Any) -> None:  # noqa: ANN401  # a wrapped function
    context = SimpleNamespace(
        function_name="f", memory_limit_in_mb=1, invoked_function_arn="a", aws_request_id="r"
    )
    event = {"pathParameters": {"provider": "stripe"}, "headers": {}, "body": EVENT}
    assert handler(event, context) == {"statusCode": 400, "body": ""}
