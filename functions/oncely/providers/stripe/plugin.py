"""The Stripe plug-in."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from oncely.domain.profiles import ProviderProfile
from oncely.provider import Provider, ProviderAccess, ProviderSettings

if TYPE_CHECKING:
    from oncely.providers.interfaces import PaymentProvider

PROFILE: Final = ProviderProfile(
    name="Stripe",
    request_timeout=timedelta(seconds=10),
    # A run: create, the read that verifies what this run did not make, confirm, and the read
    # after an error. A look-up: the intent, and up to three pages of its customer's payments.
    max_calls=4,
    max_closing_calls=2,  # cancel, and the read after an error
    key_ttl=timedelta(hours=24),
    key_scope="account and mode (live or test)",
    lookup_lag=timedelta(0),
    facts=(
        "A key is remembered for at least 24 hours; an hour of that is left unused.",
        "A 500 is stored under its key as well, so a key is left behind once absence is proved.",
        "Reading an intent by its id is consistent; the search index lags, and is not used.",
        "Listing is as fresh as reading: a second payment of the same job is found there.",
        "A key is valid for one account and one mode: another API key may not know it.",
        "Confirming takes a few seconds at worst; ten are waited for the whole answer.",
        "401, 403 and `lock_timeout` on confirm prove nothing: the intent is read after them.",
        "A second payment of a job is looked for in the customer's newest 300, and no further.",
        "A declined intent stays open: only one that is canceled can never take money.",
        "An intent is ours only with our deployment, job key, customer, amount, currency and mode.",
        "An intent that an earlier run made, saved or replayed, is read before it is confirmed.",
        "`amount_to_confirm` pins what a confirmation may charge, whatever the intent says then.",
        "The API key's prefix names its mode; without one, Stripe shows only objects of its mode.",
    ),
)


class StripeSettings(ProviderSettings):
    """Where Stripe is; None means the real one."""

    api_base: str | None = None


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
    sandbox = "oncely.providers.stripe.sandbox.api:StripeApi"

    def connect(self, access: ProviderAccess[StripeSettings]) -> "PaymentProvider":
        """Build the client from the SDK, which only the functions that charge carry."""
        from oncely.providers.stripe.payments import StripePayments  # noqa: PLC0415

        return StripePayments.from_api_key(
            access.api_key, api_base=access.settings.api_base, pace=access.rate_limiter
        )

    def console_url(self, reference: str, *, key_scope: str) -> str | None:
        """The payment in Stripe's dashboard."""
        mode = "" if key_scope.endswith("live") else "test/"
        return f"https://dashboard.stripe.com/{mode}payments/{reference}"


STRIPE: Final = StripePlugin()
