"""Asks HubSpot whether it accepts a key: how a key begins proves nothing."""

from dataclasses import dataclass
from typing import Final

from oncely.adapters.hubspot_paths import CONTACTS

_ACCEPTED: Final = frozenset({200, 429})  # a limit counts the requests of a key that is known
_REJECTED: Final = frozenset({401, 403})


@dataclass(frozen=True, kw_only=True)
class KeyCheck:
    """What a provider says of a key; `accepted` is None if it could not be asked."""

    accepted: bool | None
    reason: str = ""


def check_key(key: str, *, api_base: str | None = None) -> KeyCheck:
    """Read one contact, as the jobs do: service keys and private apps need the same scope."""
    # Only those who ask need HubSpot's SDK.
    from oncely.adapters.hubspot import TIMEOUTS, hubspot_client  # noqa: PLC0415
    from oncely.adapters.hubspot_answers import (  # noqa: PLC0415
        FAILURES,
        body_of,
        in_words,
        page_in,
        status_of,
    )

    if not (key.isascii() and key.isprintable()):
        # The error of the HTTP library would show the key.
        return KeyCheck(accepted=False, reason="it has characters that no HTTP header can hold")
    try:
        response = hubspot_client(key, api_base=api_base).call_api(
            CONTACTS,
            "GET",
            query_params=[("limit", "1")],
            auth_settings=["oauth2"],
            _preload_content=False,
            _request_timeout=TIMEOUTS,
        )
        page_in(body_of(response))
    except FAILURES as error:
        status = status_of(error)
        accepted = True if status in _ACCEPTED else False if status in _REJECTED else None
        return KeyCheck(accepted=accepted, reason=in_words(error))
    return KeyCheck(accepted=True)
