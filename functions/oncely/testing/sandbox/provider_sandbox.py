"""Stripe, HubSpot and Amazon SES on this machine, at one address."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from oncely.providers.hubspot.sandbox.api import HubSpotApi
from oncely.providers.hubspot.sandbox.contacts import HubSpotContacts
from oncely.providers.ses.sandbox.api import SesApi
from oncely.providers.stripe.sandbox.api import StripeApi
from oncely.providers.stripe.sandbox.serializers import intent_body
from oncely.testing.sandbox.faults import FaultSet
from oncely.testing.sandbox.http_messages import NowFunction, now
from oncely.testing.sandbox.idempotency_keys import KEY_WINDOW
from oncely.testing.sandbox.ledger import Ledger, PaymentIntent
from oncely.testing.sandbox.server import Sandbox


class ProviderSandbox(Sandbox):
    """Use `with ProviderSandbox() as sandbox:` and point clients at `sandbox.url`."""

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
                "settle": self._complete_pending,
                "add_contacts": self._add_contacts,
                "update_contact": self._update_contact,
                "archive_contact": self._archive_contact,
            },
        )

    def complete_pending(self, intent_id: str, *, succeeded: bool) -> PaymentIntent:
        """Complete an intent that is processing or requires action."""
        return self._stripe.complete_pending(intent_id, succeeded=succeeded)

    def _complete_pending(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return intent_body(
            self.complete_pending(params["intent_id"], succeeded=params["succeeded"])
        )

    def _add_contacts(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"ids": self.hubspot.add_contacts(params["number"])}

    def _update_contact(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.hubspot.update(params["contact_id"], **params["properties"])
        return {}

    def _archive_contact(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.hubspot.archive(params["contact_id"])
        return {}
