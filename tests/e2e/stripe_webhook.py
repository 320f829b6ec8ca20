"""Stripe, as the deployed endpoint for its events sees it."""

import http.client
import json
import time
from urllib.parse import urlsplit

from stripe import WebhookSignature

from oncely.providers.stripe.sandbox.api import StripeSandbox
from tests.e2e.deployed_stack import StackClient
from tests.support.stripe_events import stripe_event


def succeeded_event(deployment: StackClient, ref: str) -> str:
    intent = deployment.sandbox.stripe.ledger.intent(ref)
    assert intent is not None
    event = stripe_event(
        "payment_intent.succeeded",
        ref,
        deployment=intent.metadata["deployment"],
        job_key=intent.metadata["job_key"],
        created=int(time.time()),
    )
    return json.dumps(event)


def sign(body: str, *, secret: str = StripeSandbox.signing_secret, at: int | None = None) -> str:
    return str(WebhookSignature.generate_signature_header(body, secret, at))


def post(deployment: StackClient, body: str, signature: str | None) -> int:
    url, engine = urlsplit(deployment.outputs["StripeWebhookUrl"]), urlsplit(deployment.engine.url)
    headers = {"host": url.netloc, "content-type": "application/json"}
    if signature is not None:
        headers["stripe-signature"] = signature
    # The engine serves the API by its host name, which this machine may not resolve.
    connection = http.client.HTTPConnection(engine.netloc, timeout=60)
    try:
        connection.request("POST", url.path, body.encode(), headers)
        return connection.getresponse().status
    finally:
        connection.close()
