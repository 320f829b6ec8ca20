"""voucher.issue: issues one voucher of a campaign."""

from oncely import (
    Call,
    EffectOutcome,
    HttpProvider,
    Job,
    KeySchema,
    LookupOutcome,
    NotThereYet,
    PrecheckResult,
    Proceed,
    TableSchema,
)

CAMPAIGNS = TableSchema(name="campaigns", key=KeySchema(partition="campaign_id"))
voucher_api = HttpProvider(
    "voucher_api",
    base_url="https://vouchers.example.com",
    timeout="20s",
    key_ttl="24h",
    lookup_lag="0s",
    absent_body={"error": "no_voucher"},
)


class VoucherIssue(Job):
    """One voucher is issued."""

    provider = voucher_api
    queue = "vouchers"
    reads = (CAMPAIGNS,)
    when_failed = "never."
    key = "voucher_id"
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
        return call.post("/vouchers", json={"voucher": self.voucher_id})

    def lookup(self, call: Call) -> LookupOutcome:
        """Look up the voucher."""
        return call.get(f"/vouchers/{self.voucher_id}")
