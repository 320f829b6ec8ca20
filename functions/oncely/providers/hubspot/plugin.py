"""The HubSpot plug-in."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from oncely.domain.profiles import ProviderProfile
from oncely.provider import ApiKeyCheck, Provider, ProviderAccess, ProviderSettings

if TYPE_CHECKING:
    from oncely.providers.interfaces import Crm

# Which of the day's quarters the account's midnight is in, nobody tells us: each is tried.
DAILY_LIMIT_RECHECK_INTERVAL: Final = timedelta(hours=6)

PROFILE: Final = ProviderProfile(
    name="HubSpot",
    request_timeout=timedelta(seconds=10),
    # The update, the upsert after a 404, and the read and the update that link a contact.
    max_calls=4,
    key_scope="none: HubSpot knows no idempotency keys; a unique property stands for one",
    lookup_lag=timedelta(seconds=10),
    facts=(
        (
            "The API version is v3, named once, in adapters/hubspot_paths.py. HubSpot ends the "
            "support of v1 to v3 in September 2027; newer versions are dates, such as 2026-09."
        ),
        (
            "The id of a contact is a number, and our id is one segment of the path. No request "
            "is sent for any other id, such as “..”: there is no contact to read under it, and "
            "an operator decides about a push."
        ),
        (
            "Keys of private apps begin with “pat-”, service keys do not have to. `oncely doctor` "
            "reads one contact with the key, which needs the scope crm.objects.contacts.read; the "
            "jobs also need crm.objects.contacts.write."
        ),
        "There are no idempotency keys; a unique property of ours takes their place.",
        (
            "That property does not carry the deployment's identity: a deployment that moves must "
            "find its contacts again. Two deployments on one HubSpot account need two properties."
        ),
        "Reading by a unique property sees a write at once; ten seconds are kept as a margin.",
        "The search endpoint lags and ends at 10,000 results: it pages by id, and proves nothing.",
        "429 with Retry-After: the request was not performed.",
        "Each request has a connection of its own, as with SES.",
        (
            "429 with the policy DAILY: nothing is sent until the limit is reset, at midnight in "
            "the account's time zone, which we do not know. A waiting job tries again at 00:00, "
            "06:00, 12:00 and 18:00 UTC. It spends no attempt and does not age, and one alarm is "
            "raised. With the policy SECONDLY it tries again after a second."
        ),
        (
            "409 “Contact already exists. Existing ID: …” wrote nothing. That contact is read by "
            "its id. It is linked if it has the record's email and none of our ids; otherwise an "
            "operator decides, and the review names the id."
        ),
        "413 and 414: the request is too large. It is declined and never sent again.",
        (
            "404 on an update by id wrote nothing: the contact was deleted. The record is then "
            "pushed by our unique id."
        ),
    ),
)


class HubSpotSettings(ProviderSettings):
    """Where HubSpot is, and which contact properties to read and to identify contacts by."""

    api_base: str | None = None
    properties: str = ""  # names, with commas
    id_property: Annotated[str, Field(min_length=1)] = "oncely_id"  # unique; carries our id


class HubSpotPlugin(Provider["Crm", HubSpotSettings]):
    """Contacts in HubSpot."""

    name = "hubspot"
    profile = PROFILE
    settings_type = HubSpotSettings
    layer = "sync"
    max_reads_per_second = 10
    preload = ("oncely.providers.hubspot.crm",)
    sandbox = "oncely.providers.hubspot.sandbox.api:HubSpotApi"

    def connect(self, access: ProviderAccess[HubSpotSettings]) -> "Crm":
        """Build the client from the SDK, which only the functions that sync carry."""
        from oncely.providers.hubspot.crm import HubSpotCrm  # noqa: PLC0415

        settings = access.settings
        names = (name.strip() for name in settings.properties.split(","))
        return HubSpotCrm.from_token(
            access.api_key,
            api_base=settings.api_base,
            properties=tuple(name for name in names if name),
            id_property=settings.id_property,
            pace=access.rate_limiter,
        )

    def check_api_key(self, api_key: str, settings: HubSpotSettings) -> ApiKeyCheck | None:
        """Read one contact: how a key begins proves nothing."""
        from oncely.providers.hubspot.api_key import check_api_key  # noqa: PLC0415

        return check_api_key(api_key, api_base=settings.api_base)


HUBSPOT: Final = HubSpotPlugin()
