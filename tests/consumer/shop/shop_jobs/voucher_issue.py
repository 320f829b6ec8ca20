"""voucher.issue: issues one voucher of a campaign."""

import json
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from typing import Literal
from urllib.parse import urlsplit

from oncely import (
    Ambiguous,
    Contract,
    Description,
    EffectCall,
    EffectOutcome,
    JobKey,
    KeySchema,
    LookupFailed,
    LookupOutcome,
    Message,
    NotFound,
    NotSent,
    NotThereYet,
    PrecheckResult,
    Proceed,
    Provider,
    ProviderAccess,
    ProviderProfile,
    ProviderSettings,
    Resources,
    RetryPolicy,
    RetrySafety,
    Succeeded,
    TableSchema,
    job_key,
)


class VoucherSettings(ProviderSettings):
    """`voucher_api_api_base` in the stage's file."""

    api_base: str = "https://vouchers.example.com"


class VoucherClient:
    """The provider's API. Each answer is one outcome."""

    def __init__(self, access: ProviderAccess[VoucherSettings]) -> None:
        self._address = urlsplit(access.settings.api_base)
        self._headers = {"Authorization": f"Bearer {access.api_key}"}

    def issue(self, voucher_id: str, *, key: str) -> EffectOutcome:
        """Issue a voucher, once for each key."""
        try:
            status, body = self._request("POST", voucher_id, {"Idempotency-Key": key})
        except (OSError, HTTPException, ValueError) as error:
            return Ambiguous(f"no valid answer: {error!r}")
        if status == 429:
            return NotSent("the provider has too many requests")
        return Succeeded("issued", body["id"]) if status == 201 else Ambiguous(f"HTTP {status}")

    def find(self, voucher_id: str) -> LookupOutcome:
        """Look up a voucher."""
        try:
            status, body = self._request("GET", voucher_id, {})
        except (OSError, HTTPException, ValueError) as error:
            return LookupFailed(f"no valid answer: {error!r}")
        if status == 404:
            return NotFound("there is no such voucher")
        return Succeeded("issued", body["id"]) if status == 200 else LookupFailed(f"HTTP {status}")

    def _request(
        self, method: str, voucher_id: str, headers: dict[str, str]
    ) -> tuple[int, dict[str, str]]:
        timeout = PROVIDER.profile.request_timeout.total_seconds()
        connection = HTTPConnection(self._address.netloc, timeout=timeout)
        try:
            connection.request(
                method, f"/vouchers/{voucher_id}", headers={**self._headers, **headers}
            )
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


class VoucherProvider(Provider[VoucherClient, VoucherSettings]):
    """The plug-in of the voucher provider."""

    name = "voucher_api"
    settings_type = VoucherSettings
    profile = ProviderProfile(
        name="Vouchers",
        request_timeout=timedelta(seconds=20),
        max_calls=1,
        key_ttl=timedelta(hours=24),
        lookup_lag=timedelta(0),
    )

    def connect(self, access: ProviderAccess[VoucherSettings]) -> VoucherClient:
        """Build the client."""
        return VoucherClient(access)


PROVIDER = VoucherProvider()
CAMPAIGNS = TableSchema(name="campaigns", key=KeySchema(partition="campaign_id"))


class VoucherMessage(Message):
    """The message of a producer."""

    job: Literal["voucher.issue"]
    v: Literal[1]
    voucher_id: str
    campaign_id: str


class VoucherIssue(Contract[VoucherMessage, str]):
    """See `description`."""

    job_type = "voucher.issue"
    message = VoucherMessage
    example = VoucherMessage(job="voucher.issue", v=1, voucher_id="7", campaign_id="spring")
    policy = RetryPolicy(safety=RetrySafety.KEYED, profile=PROVIDER.profile)
    resources = Resources(queue="vouchers", reads=(CAMPAIGNS,), providers=(PROVIDER,))
    description = Description(
        effect="one voucher is issued.",
        business_rows="none.",
        success="the provider returned the voucher's id.",
        failure="never.",
    )

    @classmethod
    def key(cls, message: VoucherMessage) -> JobKey:
        """Return `voucher.issue:7`."""
        return job_key(cls.job_type, message.voucher_id)

    @classmethod
    def subject(cls, message: VoucherMessage) -> str:
        """Return the voucher's id."""
        return message.voucher_id

    def precheck(self, message: VoucherMessage) -> PrecheckResult[str]:
        """Wait for the campaign."""
        campaign = self.dependencies.table("campaigns").get({"campaign_id": message.campaign_id})
        if campaign is None:
            return NotThereYet(waits_for=f"campaign {message.campaign_id} to exist")
        values = {"voucher_id": message.voucher_id, "campaign_id": message.campaign_id}
        return Proceed(facts=message.voucher_id, values=values, provider=PROVIDER.name)

    def execute(self, call: EffectCall[str]) -> EffectOutcome:
        """Issue the voucher."""
        provider = self.dependencies.provider(PROVIDER)
        return provider.issue(call.facts, key=call.idempotency_key("issue"))

    def lookup(self, call: EffectCall[str]) -> LookupOutcome:
        """Look up the voucher."""
        return self.dependencies.provider(PROVIDER).find(call.facts)
