"""receipt.send: email the receipt of a paid order, at most once."""

from dataclasses import replace
from datetime import timedelta

from oncely import (
    AlreadyResolved,
    Anomalous,
    BusinessId,
    Call,
    DataOwner,
    EffectOutcome,
    InvalidInputError,
    Job,
    JobRow,
    LookupOutcome,
    LookupUnsupported,
    Money,
    NotSent,
    NotThereYet,
    PrecheckResult,
    Proceed,
    Succeeded,
)
from oncely.jobs.orders import PAID, UNPAID
from oncely.jobs.tables import ORDERS
from oncely.providers.interfaces import Email
from oncely.providers.ses import SES

_RECEIPTS_OFF = "receipts are off: no sender address is configured"


class ReceiptSend(Job[Email]):
    """One email goes to the order's receipt_email, or none."""

    key = "order_id"
    key_prefix = "order_"
    provider = SES
    queue = "mail"
    safety = "at_most_once"
    reads = (ORDERS,)
    data_owner = DataOwner.CUSTOMER  # the fingerprint covers the address, and errors may quote it
    grace_period = timedelta(hours=24)  # longer than a card payment takes
    done_verb = "sent"
    waits_for = "its order to be paid"
    when_finished = "SES accepted the email; its message id is stored."
    when_failed = "SES declines this email, for example because of its address."
    review_when = (
        "when SES may have sent the email and no event proves it: Oncely never sends it again",
    )

    order_id: BusinessId

    @classmethod
    def success_summary(cls, row: JobRow) -> str:
        if row.provider_ref is None:
            return "No receipt was sent: the order has no receipt_email, or receipts are off."
        return f"One receipt was accepted by the email provider ({row.provider_ref})."

    def precheck(self) -> PrecheckResult[Email]:
        """Read the order. An order without an address needs no receipt."""
        order = self.tools.table("orders").get({"order_id": self.order_id})
        if order is None:
            return NotThereYet(waits_for=f"order {self.order_id} to exist")
        if order.get("status") in UNPAID:
            return NotThereYet(waits_for=f"order {self.order_id} to be paid")
        if order.get("status") != PAID:
            return AlreadyResolved(outcome=Anomalous(f"order {self.order_id} is not paid"))
        address = order.get("receipt_email")
        if not isinstance(address, str) or not address:
            unneeded = Succeeded("no receipt is needed: the order has no receipt_email")
            return AlreadyResolved(outcome=unneeded)
        if not self.tools.is_configured(SES):
            return AlreadyResolved(outcome=Succeeded(_RECEIPTS_OFF))
        try:
            money = Money.parse(order.get("amount"), order.get("currency"))
        except InvalidInputError as error:
            return AlreadyResolved(outcome=Anomalous(f"order {self.order_id}: {error}"))
        email = Email(
            to=address,
            subject=f"Receipt for order {self.order_id}",
            text=(
                f"Thank you. We received {money} for order {self.order_id}.\n"
                f"Payment reference: {order.get('charge_id') or 'none'}\n"
            ),
        )
        values = {"order_id": self.order_id, "to": address}
        customer_id = name if isinstance(name := order.get("customer_id"), str) else None
        return Proceed(facts=email, values=values, customer_id=customer_id)

    def lookup(self, call: Call[Email]) -> LookupOutcome:
        """Read what SES's events prove: SES itself cannot be asked."""
        proved = call.row.proved_outcome
        if isinstance(proved, Succeeded):
            return replace(proved, result={"message_id": proved.ref})
        if proved is not None:
            return proved
        if not self.tools.is_configured(SES):
            return LookupUnsupported()
        if (wait := self.tools.provider(SES).event_wait) is None:
            return LookupUnsupported()
        return LookupUnsupported("no event of SES proves that it was sent", wait)

    def execute(self, call: Call[Email]) -> EffectOutcome:
        """Send the email. An ambiguous outcome waits for SES's event, and then needs review."""
        if not self.tools.is_configured(SES):
            return NotSent(_RECEIPTS_OFF)
        mailer, key = self.tools.provider(SES), call.idempotency_key("send")
        job_key = call.row.job_key
        return mailer.send(call.facts, idempotency_key=key, job_key=job_key, tag=call.claim_tag)
