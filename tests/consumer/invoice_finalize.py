"""invoice.finalize, at an API without idempotency keys."""

from oncely import Call, EffectOutcome, HttpProvider, Job, LookupOutcome

invoice_api = HttpProvider(
    "invoices",
    base_url="https://invoices.example.com",
    lookup_lag="5s",
    absent_body={"error.code": "not_found"},
)


class InvoiceFinalize(Job):
    """The invoice of an order is finalized."""

    provider, key = invoice_api, "order_id"
    order_id: str
    amount: int

    def execute(self, call: Call) -> EffectOutcome:
        invoice = {"reference": self.order_id, "amount": self.amount}
        return call.post("/invoices", json=invoice, expect={"amount": self.amount})

    def lookup(self, call: Call) -> LookupOutcome:
        return call.get(f"/invoices/{self.order_id}", expect={"amount": self.amount})
