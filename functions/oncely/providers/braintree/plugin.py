"""The Braintree plug-in."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from oncely.core.errors import NotConfiguredError
from oncely.core.profiles import ProviderProfile
from oncely.plugins.provider import ApiKeyCheck, Provider, ProviderAccess, ProviderSettings

if TYPE_CHECKING:
    from oncely.providers.interfaces import PaymentProvider

# Braintree documents no delay between a sale and its appearance in a search.
SEARCH_LAG: Final = timedelta(minutes=5)

PROFILE: Final = ProviderProfile(
    name="Braintree",
    request_timeout=timedelta(seconds=10),
    # A first run: authorize, submit, and the read after an error. A lookup: the transaction, and
    # the two requests of a search.
    max_calls=4,
    max_closing_calls=2,  # void, and the read after an error
    key_scope="merchant, if it may send keys: no rule relies on one",
    lookup_lag=SEARCH_LAG,
)

_ACCOUNT: Final = r"[a-z]{3}=[\w-]{1,100}"


class BraintreeSettings(ProviderSettings):
    """Braintree's address, environment and merchant accounts."""

    api_base: str | None = None  # None for the environment's own
    environment: Literal["production", "sandbox"] = "production"
    merchant_id: Annotated[str, Field(pattern=r"^\w{1,64}$")] | None = None
    # One for each currency: "eur=shop_eur,usd=shop_usd".
    merchant_accounts: Annotated[str, Field(pattern=rf"^({_ACCOUNT}(,{_ACCOUNT})*)?$")] = ""

    @model_validator(mode="after")
    def _has_an_account(self) -> Self:
        if self.merchant_id and not self.merchant_accounts:
            raise ValueError(
                "merchant_id needs merchant_accounts, one for each currency: eur=…,usd=…"
            )
        return self

    @property
    def accounts(self) -> dict[str, str]:
        """The merchant accounts by currency."""
        pairs = (one.partition("=") for one in self.merchant_accounts.split(",") if one)
        return {currency: account for currency, _, account in pairs}


class BraintreePlugin(Provider["PaymentProvider", BraintreeSettings]):
    """Payments through Braintree's transactions, with vaulted payment methods."""

    name = "braintree"
    profile = PROFILE
    settings_type = BraintreeSettings
    required_settings = ("merchant_id",)
    layer = "braintree"
    sandbox = "oncely.providers.braintree.sandbox:BraintreeSandbox"
    facts = "oncely.providers.braintree.facts:FACTS"
    preload = ("oncely.providers.braintree.payments",)

    def connect(self, access: ProviderAccess[BraintreeSettings]) -> "PaymentProvider":
        """Build the client from the SDK, which is only in the functions that charge."""
        from oncely.providers.braintree.gateway import connect_gateway  # noqa: PLC0415
        from oncely.providers.braintree.payments import BraintreePayments  # noqa: PLC0415

        settings = access.settings
        if settings.merchant_id is None:
            raise NotConfiguredError(
                f"Braintree is not configured: set {self.env_var('merchant_id')} and deploy again"
            )
        return BraintreePayments(
            gateway=connect_gateway(
                access.api_key, settings, gate=access.gate, network=access.network
            ),
            accounts=settings.accounts,
            scope=f"braintree:{settings.environment}:{settings.merchant_id}",
        )

    def check_api_key(self, api_key: str, settings: BraintreeSettings) -> ApiKeyCheck | None:
        """Read each merchant account, and compare its currency."""
        # Import Braintree's SDK only for this check.
        from oncely.providers.braintree.gateway import connect_gateway  # noqa: PLC0415
        from oncely.providers.braintree.responses import (  # noqa: PLC0415
            REQUEST_ERRORS,
            describe_error,
            is_unknown_id,
            rejects_api_key,
        )

        try:
            gateway = connect_gateway(api_key, settings)
            for currency, account_id in settings.accounts.items():
                account = gateway.merchant_account.find(account_id)
                theirs = str(account.currency_iso_code).lower()
                if theirs != currency:
                    reason = f"the merchant account {account_id} takes {theirs}, not {currency}"
                    return ApiKeyCheck(accepted=False, reason=reason)
        except NotConfiguredError as error:
            return ApiKeyCheck(accepted=False, reason=str(error))
        except REQUEST_ERRORS as error:
            definite = rejects_api_key(error) or is_unknown_id(error)
            return ApiKeyCheck(accepted=False if definite else None, reason=describe_error(error))
        return ApiKeyCheck(accepted=True)

    def console_url(
        self,
        reference: str,
        *,
        key_scope: str,
        settings: BraintreeSettings,
        is_dispute: bool = False,
    ) -> str | None:
        del settings  # the row's scope has the merchant that was used
        scope = re.fullmatch(r"braintree:(production|sandbox):(\w{1,64})", key_scope, re.ASCII)
        if scope is None or not re.fullmatch(r"\w{1,100}", reference, re.ASCII):
            return None  # a row may have been edited
        host = "www" if scope[1] == "production" else "sandbox"
        page = "disputes" if is_dispute else "transactions"
        return f"https://{host}.braintreegateway.com/merchants/{scope[2]}/{page}/{reference}"


BRAINTREE: Final = BraintreePlugin()
