"""Checks an API key at Braintree, together with the merchant accounts it is used for."""

from oncely.core.errors import NotConfiguredError
from oncely.plugins.provider import ApiKeyCheck
from oncely.providers.braintree.plugin import BraintreeSettings


def check_api_key(api_key: str, settings: BraintreeSettings) -> ApiKeyCheck:
    """Read the merchant account of each currency."""
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
