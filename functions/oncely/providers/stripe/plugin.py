"""The Stripe plug-in."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from oncely.core.effect_outcomes import Json, LookupFailed, NotFound
from oncely.core.hints import DropReason
from oncely.core.profiles import ProviderProfile
from oncely.plugins.events import (
    EffectChange,
    EventEnvelope,
    EventRule,
    ProviderEvent,
    webhook_source,
)
from oncely.plugins.provider import Provider, ProviderAccess, ProviderSettings
from oncely.providers.stripe import events

if TYPE_CHECKING:
    from oncely.providers.stripe.payments import StripePayments

PROFILE: Final = ProviderProfile(
    name="Stripe",
    request_timeout=timedelta(seconds=10),
    # A run: create, the read that verifies an intent of another run, confirm, and the read after
    # an error. A lookup: the intent, and up to three pages of its customer's payments.
    # A refund: the charge, the refund, and after an error the list and the charge again.
    max_calls=4,
    max_closing_calls=2,  # cancel, and the read after an error
    key_ttl=timedelta(hours=24),
    key_scope="account and mode (live or test)",
    lookup_lag=timedelta(0),
    # For each endpoint. A run creates once and confirms once; a lookup lists once and reads once.
    effects_per_second=25,
    lookups_per_second=25,
)


# The page of the dashboard for each kind of id.
_PAGES: Final = {
    **dict.fromkeys(("pi", "ch", "py"), "payments"),
    **dict.fromkeys(("re", "pyr"), "refunds"),
    **dict.fromkeys(("dp", "du"), "disputes"),
    "cus": "customers",
}
_ID: Final = re.compile(rf"({'|'.join(_PAGES)})_\w{{1,100}}", re.ASCII)


class StripeSettings(ProviderSettings):
    """Stripe's address, and how its events arrive. Without these settings, events are off."""

    api_base: str | None = None  # None for the real one
    # The partner event source of an event destination, and the event bus of the same name.
    event_source: Annotated[str, Field(pattern=r"^aws\.partner/stripe\.com/.+$")] | None = None
    webhook: bool = False  # an HTTPS endpoint for events


class StripePlugin(Provider["StripePayments", StripeSettings]):
    """Payments through Stripe's PaymentIntents."""

    name = "stripe"
    profile = PROFILE
    settings_type = StripeSettings
    api_key_prefixes = ("sk_", "rk_")
    test_key_prefixes = ("sk_test_", "rk_test_")
    layer = "payments"
    sandbox = "oncely.providers.stripe.sandbox.api:StripeSandbox"
    facts = "oncely.providers.stripe.facts:FACTS"
    preload = ("oncely.providers.stripe.payments",)
    webhook_header = "stripe-signature"

    def connect(self, access: ProviderAccess[StripeSettings]) -> "StripePayments":
        """Build the client from the SDK, which is only in the functions that charge."""
        from oncely.providers.stripe.payments import StripePayments  # noqa: PLC0415

        return StripePayments.from_api_key(
            access.api_key,
            api_base=access.settings.api_base,
            gate=access.gate,
            network=access.network,
        )

    def responds(self, client: "StripePayments") -> bool | None:
        return client.responds()

    def event_rules(self, settings: StripeSettings) -> tuple[EventRule, ...]:
        source = settings.event_source
        return () if source is None else events.event_rules(source, bus=source)

    def webhook_rules(self, settings: StripeSettings) -> tuple[EventRule, ...]:
        return events.event_rules(webhook_source(self.name)) if settings.webhook else ()

    def verify_webhook(
        self, body: str, headers: Mapping[str, str], *, secrets: Sequence[str]
    ) -> Mapping[str, Json] | None:
        from oncely.providers.stripe.webhooks import verify_webhook  # noqa: PLC0415

        return verify_webhook(body, headers.get(self.webhook_header, ""), secrets=secrets)

    def read_event(self, envelope: EventEnvelope) -> ProviderEvent | DropReason:
        return events.read_event(envelope)

    def read_change(
        self, client: "StripePayments", event: ProviderEvent
    ) -> EffectChange | NotFound | LookupFailed:
        return client.read_change(event.object_id)

    def console_url(
        self,
        reference: str,
        *,
        key_scope: str,
        settings: StripeSettings,
        is_dispute: bool = False,
    ) -> str | None:
        del settings, is_dispute  # the prefix of the id shows the kind
        if (found := _ID.fullmatch(reference)) is None:
            return None  # a row may have been edited
        mode = "test/" if key_scope.startswith("stripe:test:") else ""
        return f"https://dashboard.stripe.com/{mode}{_PAGES[found[1]]}/{reference}"


STRIPE: Final = StripePlugin()
