"""Checks an API key at HubSpot: the prefix of a key proves nothing."""

from typing import Final

from oncely.plugins.provider import ApiKeyCheck
from oncely.providers.hubspot.paths import CONTACTS

_ACCEPTED: Final = frozenset({200, 429})  # HubSpot rate-limits only known keys
_REJECTED: Final = frozenset({401, 403})


def check_api_key(api_key: str, *, api_base: str | None = None) -> ApiKeyCheck:
    """Read one contact, with the scope that the jobs need."""
    # Import the HTTP library only for this check.
    from oncely.providers.hubspot.crm import HubSpotClient  # noqa: PLC0415
    from oncely.providers.hubspot.responses import (  # noqa: PLC0415
        REQUEST_ERRORS,
        describe_error,
        http_status,
        parse_body,
        parse_page,
    )

    if not (api_key.isascii() and api_key.isprintable()):
        # The error of the HTTP library would contain the API key.
        return ApiKeyCheck(accepted=False, reason="it has characters that HTTP headers disallow")
    try:
        client = HubSpotClient(api_key, api_base=api_base)
        response = client.call("GET", CONTACTS, query=(("limit", "1"),))
        parse_page(parse_body(response))
    except REQUEST_ERRORS as error:
        status = http_status(error)
        accepted = True if status in _ACCEPTED else False if status in _REJECTED else None
        return ApiKeyCheck(accepted=accepted, reason=describe_error(error))
    return ApiKeyCheck(accepted=True)
