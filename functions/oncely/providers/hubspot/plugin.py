"""The HubSpot plug-in."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from oncely.domain.gate import shared_limit
from oncely.domain.profiles import ProviderProfile
from oncely.provider import ApiKeyCheck, Provider, ProviderAccess, ProviderSettings

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
    facts=(
        "Links to contacts need `hubspot_portal_id`, the number of your HubSpot account.",
        (
            "The API version is v3, set once, in providers/hubspot/paths.py. HubSpot ends the "
            "support of v1 to v3 in September 2027. Newer versions are dates, such as 2026-09."
        ),
        (
            "A contact id is a number, and our id is one segment of the path. Oncely sends no "
            "request for any other id, such as “..”. An import treats it as not found, and a push "
            "needs review."
        ),
        (
            "API keys of private apps start with “pat-”; service keys need not. `oncely doctor` "
            "reads one contact with the key, which needs the scope crm.objects.contacts.read. The "
            "jobs also need crm.objects.contacts.write."
        ),
        "HubSpot has no idempotency keys. A unique property with our id replaces them.",
        (
            "That property does not contain the deployment's identity, because a deployment that "
            "moves must find its contacts again. Two deployments on one HubSpot account need two "
            "properties."
        ),
        "Reads by a unique property see a write immediately. Oncely adds a margin of 10 seconds.",
        (
            "The search endpoint lags and ends at 10,000 results. Oncely pages it by id, and takes "
            "no result as proof that an effect did not happen."
        ),
        "The smallest limit of HubSpot is 100 requests in 10 seconds. Lookups have 30 % of it.",
        (
            "An import lists 100 contacts with each request, and fetches each version of a contact "
            "once. So the first import of 100,000 contacts takes 101,000 requests and about 4 "
            "hours. A version that was imported before takes no request."
        ),
        "429 with Retry-After: HubSpot did not perform the request.",
        "Each request uses its own connection, as with SES.",
        (
            "429 with the policy DAILY: Oncely sends nothing until HubSpot resets the limit, at "
            "midnight in the account's time zone, which Oncely does not know. Jobs on hold retry "
            "at 00:00, 06:00, 12:00 and 18:00 UTC. They spend no attempt and do not age, and one "
            "alarm is raised. With the policy SECONDLY they retry after 1 second."
        ),
        (
            "409 “Contact already exists. Existing ID: …” wrote nothing. Oncely reads that contact "
            "by its id, and links it if it has the record's email and none of our ids. Otherwise "
            "the job needs review, and the reason contains the id."
        ),
        "413 and 414: the request is too large. The job is declined and never retried.",
        (
            "404 on an update by id wrote nothing: the contact was deleted. Oncely then pushes the "
            "record by our unique id."
        ),
    ),
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
