"""The Stripe plug-in."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from oncely.domain.profiles import ProviderProfile
from oncely.provider import Provider, ProviderAccess, ProviderSettings

if TYPE_CHECKING:
    from oncely.providers.interfaces import PaymentProvider

PROFILE: Final = ProviderProfile(
    name="Stripe",
    request_timeout=timedelta(seconds=10),
    # A run: create, the read that verifies an intent of another run, confirm, and the read after
    # an error. A lookup: the intent, and up to three pages of its customer's payments.
    max_calls=4,
    max_closing_calls=2,  # cancel, and the read after an error
    key_ttl=timedelta(hours=24),
    key_scope="account and mode (live or test)",
    lookup_lag=timedelta(0),
    facts=(
        (
            "Stripe remembers an idempotency key for at least 24 hours. Oncely leaves 1 hour of "
            "that unused."
        ),
        (
            "Stripe also stores a 500 under its key. Oncely uses a new key once a lookup proves "
            "that the effect did not happen."
        ),
        "Reads of an intent by its id are consistent. The search index lags and is not used.",
        "Lists are as fresh as reads, so they show a second payment of the same job.",
        (
            "An idempotency key is valid for one account and one mode. With another API key, "
            "Stripe may not recognize it."
        ),
        "Confirming takes a few seconds at worst. The timeout for the whole request is 10 seconds.",
        "401, 403 and `lock_timeout` on confirm prove nothing, so Oncely reads the intent.",
        "Oncely searches only the customer's newest 300 payments for a second one of the same job.",
        "A declined intent stays open. Only a canceled intent can never take money.",
        "An intent is ours only with our deployment, job key, customer, amount, currency and mode.",
        (
            "Oncely reads an intent of an earlier run, saved or replayed, before it confirms the "
            "intent."
        ),
        "`amount_to_confirm` limits what a confirmation may charge, even if the intent changed.",
        (
            "The prefix of an API key contains its mode. If it does not, Oncely compares no mode: "
            "Stripe returns only objects of the key's mode."
        ),
    ),
)


class StripeSettings(ProviderSettings):
    """Stripe's address."""

    api_base: str | None = None  # None for the real one


class StripePlugin(Provider["PaymentProvider", StripeSettings]):
    """Payments through Stripe's PaymentIntents."""

    name = "stripe"
    profile = PROFILE
    settings_type = StripeSettings
    api_key_prefixes = ("sk_", "rk_")
    test_key_prefixes = ("sk_test_", "rk_test_")
    layer = "payments"
    max_reads_per_second = 100
    max_test_reads_per_second = 25
    preload = ("oncely.providers.stripe.payments",)

    def connect(self, access: ProviderAccess[StripeSettings]) -> "PaymentProvider":
        """Build the client from the SDK, which is only in the functions that charge."""
        from oncely.providers.stripe.payments import StripePayments  # noqa: PLC0415

        return StripePayments.from_api_key(
            access.api_key, api_base=access.settings.api_base, pace=access.rate_limiter
        )

    def console_url(self, reference: str, *, key_scope: str) -> str | None:
        if not re.fullmatch(r"pi_\w{1,100}", reference, re.ASCII):
            return None  # a row may have been edited
        mode = "test/" if key_scope.startswith("stripe:test:") else ""
        return f"https://dashboard.stripe.com/{mode}payments/{reference}"


STRIPE: Final = StripePlugin()
