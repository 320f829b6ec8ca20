"""Stripe, HubSpot and Amazon SES on this machine, behind one address."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from infra.local.sandbox.faults import Faults
from infra.local.sandbox.hubspot_api import HubSpotApi
from infra.local.sandbox.hubspot_contacts import HubSpotContacts
from infra.local.sandbox.keys import WINDOW
from infra.local.sandbox.ledger import Ledger, PaymentIntent
from infra.local.sandbox.messages import Clock, now
from infra.local.sandbox.server import Sandbox
from infra.local.sandbox.ses_api import SesApi
from infra.local.sandbox.stripe_api import StripeApi
from infra.local.sandbox.stripe_shapes import intent_body


class ProviderSandbox(Sandbox):
    """`with ProviderSandbox() as sandbox:` and point every client at `sandbox.url`."""

    def __init__(
        self,
        *,
        port: int = 0,
        clock: Clock = now,
        honours_keys: bool = True,
        key_window: timedelta = WINDOW,
        search_lag: timedelta = timedelta(0),
        seed: int = 0,
    ) -> None:
        ledger = Ledger()
        self._stripe = StripeApi(
            ledger,
            clock,
            honours_keys=honours_keys,
            key_window=key_window,
            search_lag=search_lag,
        )
        self.hubspot = HubSpotContacts(ledger, clock)
        super().__init__(
            [self._stripe, HubSpotApi(self.hubspot, ledger), SesApi(ledger, clock)],
            ledger=ledger,
            faults=Faults(seed=seed),
            port=port,
            clock=clock,
            actions={
                "settle": self._settle,
                "add_contacts": self._add_contacts,
                "update_contact": self._update_contact,
                "archive_contact": self._archive_contact,
            },
        )

    def settle(self, intent_id: str, *, succeeded: bool) -> PaymentIntent:
        """End an intent that is processing, or waiting for its customer."""
        return self._stripe.settle(intent_id, succeeded=succeeded)

    def _settle(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return intent_body(self.settle(params["intent_id"], succeeded=params["succeeded"]))

    def _add_contacts(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"ids": self.hubspot.add_contacts(params["number"])}

    def _update_contact(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.hubspot.update(params["contact_id"], **params["properties"])
        return {}

    def _archive_contact(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.hubspot.archive(params["contact_id"])
        return {}
