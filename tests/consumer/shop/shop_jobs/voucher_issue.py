"""voucher.issue: issues one voucher of a campaign."""

import json
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from typing import ClassVar
from urllib.parse import urlsplit

from oncely import (
    Ambiguous,
    Call,
    EffectOutcome,
    Job,
    KeySchema,
    LookupFailed,
    LookupOutcome,
    NotFound,
    NotSent,
    NotThereYet,
    PrecheckResult,
    Proceed,
    Provider,
    ProviderAccess,
    ProviderProfile,
    ProviderSettings,
    Succeeded,
    TableSchema,
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


class VoucherIssue(Job):
    """One voucher is issued."""

    key = "voucher_id"
    provider = PROVIDER
    queue = "vouchers"
    reads = (CAMPAIGNS,)
    when_failed = "never."
    example: ClassVar = {"voucher_id": "7", "campaign_id": "spring"}

    voucher_id: str
    campaign_id: str

    def precheck(self) -> PrecheckResult[None]:
        """Wait for the campaign."""
        campaign = self.tools.table("campaigns").get({"campaign_id": self.campaign_id})
        if campaign is None:
            return NotThereYet(waits_for=f"campaign {self.campaign_id} to exist")
        return Proceed(facts=None, values=self.business_values())

    def execute(self, call: Call) -> EffectOutcome:
        """Issue the voucher."""
        key = call.idempotency_key("issue")
        return self.tools.provider(PROVIDER).issue(self.voucher_id, key=key)

    def lookup(self, call: Call) -> LookupOutcome:
        """Look up the voucher."""
        return self.tools.provider(PROVIDER).find(self.voucher_id)
