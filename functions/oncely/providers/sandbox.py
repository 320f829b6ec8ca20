"""Stripe, HubSpot and Amazon SES on this machine, at one address."""

import argparse
import signal
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from oncely.providers.hubspot.sandbox.api import HubSpotApi
from oncely.providers.hubspot.sandbox.contacts import HubSpotContacts
from oncely.providers.hubspot.sandbox.records import HubSpotLedger
from oncely.providers.ses.sandbox.api import SesApi
from oncely.providers.ses.sandbox.records import SesLedger
from oncely.providers.stripe.sandbox.api import StripeApi
from oncely.providers.stripe.sandbox.idempotency_keys import KEY_WINDOW
from oncely.providers.stripe.sandbox.ledger import PaymentIntent, StripeLedger
from oncely.providers.stripe.sandbox.serializers import intent_body
from oncely.testing.sandbox.faults import FaultSet
from oncely.testing.sandbox.http_messages import NowFunction, now
from oncely.testing.sandbox.server import Sandbox


class Ledger(StripeLedger, HubSpotLedger, SesLedger):
    """The ledger of all three providers."""


class ProviderSandbox(Sandbox[Ledger]):
    """The three providers on one port: `with ProviderSandbox() as sandbox: … sandbox.url`."""

    def __init__(
        self,
        *,
        port: int = 0,
        clock: NowFunction = now,
        honors_idempotency_keys: bool = True,
        key_window: timedelta = KEY_WINDOW,
        search_lag: timedelta = timedelta(0),
        seed: int = 0,
    ) -> None:
        ledger = Ledger()
        self._stripe = StripeApi(
            ledger,
            clock,
            honors_idempotency_keys=honors_idempotency_keys,
            key_window=key_window,
            search_lag=search_lag,
        )
        self.hubspot = HubSpotContacts(ledger, clock)
        super().__init__(
            [self._stripe, HubSpotApi(self.hubspot, ledger), SesApi(ledger, clock)],
            ledger=ledger,
            faults=FaultSet(seed=seed),
            port=port,
            clock=clock,
            actions={
                "complete": self._complete_pending,
                "add_contacts": lambda given: {"ids": self.hubspot.add_contacts(given["number"])},
                "update_contact": self._update_contact,
                "archive_contact": self._archive_contact,
            },
        )

    def complete_pending(self, intent_id: str, *, succeeded: bool) -> PaymentIntent:
        return self._stripe.complete_pending(intent_id, succeeded=succeeded)

    def _complete_pending(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        intent = self.complete_pending(params["intent_id"], succeeded=params["succeeded"])
        return intent_body(intent)

    def _update_contact(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.hubspot.update(params["contact_id"], **params["properties"])
        return {}

    def _archive_contact(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.hubspot.archive(params["contact_id"])
        return {}


def main() -> None:
    """Serve until SIGINT or SIGTERM. The first line printed is the address."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--port", type=int, default=0, help="port to listen on (default: a free one)"
    )
    parser.add_argument("--ignore-keys", action="store_true", help="ignore idempotency keys")
    parser.add_argument(
        "--search-lag", type=float, default=0.0, help="seconds until a change is searchable"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of random faults")
    options = parser.parse_args()
    stopped = threading.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda *_: stopped.set())
    with ProviderSandbox(
        port=options.port,
        honors_idempotency_keys=not options.ignore_keys,
        search_lag=timedelta(seconds=options.search_lag),
        seed=options.seed,
    ) as sandbox:
        print(sandbox.url, flush=True)  # the parent process reads it
        stopped.wait()


if __name__ == "__main__":
    main()
