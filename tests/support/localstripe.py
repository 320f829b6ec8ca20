"""localstripe in its own process: a third-party fake of Stripe that ignores idempotency keys."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import stripe

from oncely.providers.stripe.payments import StripePayments
from oncely_local.engine import HOST, free_port
from tests.support.engines import wait_until_listening

# Its own command listens on all interfaces and writes its store to a shared file.
_SERVE: Final = """
import sys
from aiohttp import web
from localstripe.resources import Store
Store.dump_to_disk = lambda self: None
from localstripe.server import app
web.run_app(app, host=sys.argv[1], port=int(sys.argv[2]), print=None)
"""
# Newer parameters of Stripe, which it rejects.
_UNSUPPORTED_PARAMS: Final = (
    *("automatic_payment_methods", "off_session"),
    *("error_on_requires_action", "amount_to_confirm"),
)
_LIST: Final = "/v1/payment_intents"


class ApiTranslator(stripe.RequestsClient):
    """Translates newer parameters, so that our adapter is used unchanged."""

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        post_data: Any = None,  # noqa: ANN401  # as inherited
        **_more: Any,  # noqa: ANN401  # as inherited
    ) -> tuple[Any, int, Mapping[str, str]]:
        if post_data:
            said = (
                pair for pair in post_data.split("&") if not pair.startswith(_UNSUPPORTED_PARAMS)
            )
            post_data = "&".join(said)
        address, asked = urlsplit(url), dict(parse_qsl(urlsplit(url).query))
        # It lists only the payments of all customers.
        of_customer = asked.pop("customer", None) if address.path == _LIST else None
        url = urlunsplit(address._replace(query=urlencode(asked)))
        body, code, answered = super().request(method, url, headers, post_data)
        answer = json.loads(body)
        if of_customer is not None:
            answer["data"] = [one for one in answer["data"] if one["customer"] == of_customer]
        for intent in (answer, *answer.get("data", ())):
            if intent.get("object") == "payment_intent":
                taken = intent["status"] == "succeeded"
                intent["amount_received"] = intent["amount"] if taken else 0
        return json.dumps(answer).encode(), code, answered


class LocalStripe:
    def __init__(self, url: str) -> None:
        self.client = stripe.StripeClient(
            "sk_test_localstripe",
            base_addresses={"api": url},
            http_client=ApiTranslator(),
            max_network_retries=0,
        )
        self.payments = StripePayments(self.client, "localstripe")

    def new_customer(self) -> tuple[str, str]:
        customer = self.client.v1.customers.create({"name": "A customer"})
        card: Any = {"number": "4242424242424242", "exp_month": 12, "exp_year": 2040, "cvc": "123"}
        method = self.client.v1.payment_methods.create({"type": "card", "card": card})
        self.client.v1.payment_methods.attach(method.id, {"customer": customer.id})
        return customer.id, method.id

    def charges(self, customer: str) -> list[stripe.Charge]:
        found = self.client.v1.charges.list({"customer": customer})
        return [one for one in found.data if one.status == "succeeded"]


@contextmanager
def running_localstripe() -> Iterator[LocalStripe]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, HOST, str(port)],
        env={"PATH": os.environ.get("PATH", os.defpath)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_listening(port, process, None)
        yield LocalStripe(f"http://{HOST}:{port}")
    finally:
        process.kill()
        process.wait()
