"""The HubSpot plug-in."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from oncely.core.profiles import ProviderProfile
from oncely.plugins.provider import ApiKeyCheck, Provider, ProviderAccess, ProviderSettings
from oncely.providers.hubspot.paths import CONTACTS

if TYPE_CHECKING:
    from oncely.providers.hubspot.crm import HubSpotCrm

# What the answer says about an API key. HubSpot rate-limits only known keys.
_ACCEPTED: Final = frozenset({200, 429})
_REJECTED: Final = frozenset({401, 403})
# HubSpot resets the limit at midnight in the account's time zone, which we do not know.
DAILY_LIMIT_RECHECK_INTERVAL: Final = timedelta(hours=6)

PROFILE: Final = ProviderProfile(
    name="HubSpot",
    request_timeout=timedelta(seconds=10),
    # The update, the upsert after a 404, and the read and the update that link a contact.
    max_calls=4,
    key_scope="none: HubSpot has no idempotency keys; a unique property replaces them",
    lookup_lag=timedelta(seconds=10),
    # HubSpot counts all requests of an app together: 10 a second.
    effects_per_second=7,
    lookups_per_second=3,
)


class HubSpotSettings(ProviderSettings):
    """HubSpot's address, the contact properties to read, and the one with our id."""

    api_base: str | None = None
    properties: str = ""  # names, separated by commas
    id_property: Annotated[str, Field(min_length=1)] = "oncely_id"  # the unique property
    portal_id: Annotated[str, Field(pattern=r"^\d{1,20}$")] | None = None  # for links to contacts


class HubSpotPlugin(Provider["HubSpotCrm", HubSpotSettings]):
    """Contacts in HubSpot."""

    name = "hubspot"
    profile = PROFILE
    settings_type = HubSpotSettings
    sandbox = "oncely.providers.hubspot.sandbox.api:HubSpotSandbox"
    facts = "oncely.providers.hubspot.facts:FACTS"
    preload = ("oncely.providers.hubspot.crm",)

    def connect(self, access: ProviderAccess[HubSpotSettings]) -> "HubSpotCrm":
        """Build the client, which opens a connection for each request."""
        from oncely.providers.hubspot.crm import HubSpotCrm  # noqa: PLC0415

        settings = access.settings
        names = (name.strip() for name in settings.properties.split(","))
        return HubSpotCrm.from_token(
            access.api_key,
            api_base=settings.api_base,
            properties=tuple(name for name in names if name),
            id_property=settings.id_property,
            gate=access.gate,
            network=access.network,
        )

    def console_url(
        self,
        reference: str,
        *,
        key_scope: str,
        settings: HubSpotSettings,
        is_dispute: bool = False,
    ) -> str | None:
        del key_scope, is_dispute
        if settings.portal_id is None or not re.fullmatch(r"\d{1,30}", reference, re.ASCII):
            return None
        return f"https://app.hubspot.com/contacts/{settings.portal_id}/record/0-1/{reference}"

    def check_api_key(self, api_key: str, settings: HubSpotSettings) -> ApiKeyCheck | None:
        """Read one contact: the prefix of a key proves nothing."""
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
            return ApiKeyCheck(
                accepted=False, reason="it has characters that HTTP headers disallow"
            )
        try:
            client = HubSpotClient(api_key, api_base=settings.api_base)
            response = client.call("GET", CONTACTS, query=(("limit", "1"),))
            parse_page(parse_body(response))
        except REQUEST_ERRORS as error:
            status = http_status(error)
            accepted = True if status in _ACCEPTED else False if status in _REJECTED else None
            return ApiKeyCheck(accepted=accepted, reason=describe_error(error))
        return ApiKeyCheck(accepted=True)


HUBSPOT: Final = HubSpotPlugin()
