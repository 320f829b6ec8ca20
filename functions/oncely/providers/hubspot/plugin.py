"""The HubSpot plug-in."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from oncely.core.profiles import ProviderProfile, shared_limit
from oncely.plugins.provider import ApiKeyCheck, Provider, ProviderAccess, ProviderSettings

if TYPE_CHECKING:
    from oncely.providers.interfaces import Crm

# HubSpot resets the limit at midnight in the account's time zone, which we do not know.
DAILY_LIMIT_RECHECK_INTERVAL: Final = timedelta(hours=6)

PROFILE: Final = ProviderProfile(
    name="HubSpot",
    request_timeout=timedelta(seconds=10),
    # The update, the upsert after a 404, and the read and the update that link a contact.
    max_calls=4,
    key_scope="none: HubSpot has no idempotency keys; a unique property replaces them",
    lookup_lag=timedelta(seconds=10),
    # HubSpot counts all requests of an app together.
    rate_limits=shared_limit(10, lookup_share=0.3),
)


class HubSpotSettings(ProviderSettings):
    """HubSpot's address, the contact properties to read, and the one with our id."""

    api_base: str | None = None
    properties: str = ""  # names, separated by commas
    id_property: Annotated[str, Field(min_length=1)] = "oncely_id"  # the unique property
    portal_id: Annotated[str, Field(pattern=r"^\d{1,20}$")] | None = None  # for links to contacts


class HubSpotPlugin(Provider["Crm", HubSpotSettings]):
    """Contacts in HubSpot."""

    name = "hubspot"
    profile = PROFILE
    settings_type = HubSpotSettings
    sandbox = "oncely.providers.hubspot.sandbox.api:HubSpotSandbox"
    facts = "oncely.providers.hubspot.facts:FACTS"
    preload = ("oncely.providers.hubspot.crm",)

    def connect(self, access: ProviderAccess[HubSpotSettings]) -> "Crm":
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
        from oncely.providers.hubspot.api_key import check_api_key  # noqa: PLC0415

        return check_api_key(api_key, api_base=settings.api_base)


HUBSPOT: Final = HubSpotPlugin()
