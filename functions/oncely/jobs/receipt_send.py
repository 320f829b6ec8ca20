"""receipt.send: email the receipt of a paid order, at most once."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Literal

from oncely import (
    AlreadyResolved,
    Anomalous,
    Contract,
    DataOwner,
    Description,
    EffectCall,
    EffectOutcome,
    InvalidMoneyError,
    JobKey,
    JobRow,
    LookupOutcome,
    LookupUnsupported,
    Message,
    Money,
    NotSent,
    NotThereYet,
    PrecheckResult,
    Proceed,
    Resources,
    RetryLimits,
    RetryPolicy,
    RetrySafety,
    Succeeded,
    job_key,
    proved_outcome,
)
from oncely.jobs.orders import PAID, UNPAID
from oncely.jobs.tables import ORDERS, BusinessId
from oncely.providers.interfaces import Email
from oncely.providers.ses import SES

_RECEIPTS_OFF = "receipts are off: no sender address is configured"


class ReceiptMessage(Message):
    """A request to email the receipt of an order."""

    job: Literal["receipt.send"]
    v: Literal[1]
    order_id: BusinessId


class ReceiptSend(Contract[ReceiptMessage, Email]):
    """The job type that emails a receipt."""

    job_type = "receipt.send"
    message = ReceiptMessage
    example = ReceiptMessage.model_construct(job="receipt.send", v=1, order_id="18452")
    policy = RetryPolicy(
        safety=RetrySafety.AT_MOST_ONCE,
        profile=SES.profile,
        limits=RetryLimits(grace_period=timedelta(hours=24)),  # longer than a card payment takes
    )
    owner = DataOwner.CUSTOMER  # the fingerprint covers the address, and errors may quote it
    resources = Resources(queue="mail", reads=(ORDERS,), providers=(SES,))
    description = Description(
        done_verb="sent",
        waits_for="its order to be paid",
        effect="one email goes to the order's receipt_email, or none.",
        business_rows="none.",
        success="SES accepted the email; its message id is stored.",
        failure="SES declines this email, for example because of its address.",
        review_when=(
            "when SES may have sent the email and no event proves it: Oncely never sends it again",
        ),
    )

    @classmethod
    def key(cls, message: ReceiptMessage) -> JobKey:
        """Return `receipt.send:order_18452`."""
        return job_key(cls.job_type, message.order_id, prefix="order_")

    @classmethod
    def subject(cls, message: ReceiptMessage) -> str:
        return message.order_id

    @classmethod
    def keys_for_subject(cls, subject: str) -> Iterator[JobKey]:
        return iter((job_key(cls.job_type, subject, prefix="order_"),))

    @classmethod
    def success_summary(cls, job: JobRow) -> str:
        if job.provider_ref is None:
            return "No receipt was sent: the order has no receipt_email, or receipts are off."
        return f"One receipt was accepted by the email provider ({job.provider_ref})."

    def precheck(self, message: ReceiptMessage) -> PrecheckResult[Email]:
        """Read the order. An order without an address needs no receipt."""
        order = self.dependencies.table("orders").get({"order_id": message.order_id})
        if order is None:
            return NotThereYet(waits_for=f"order {message.order_id} to exist")
        if order.get("status") in UNPAID:
            return NotThereYet(waits_for=f"order {message.order_id} to be paid")
        if order.get("status") != PAID:
            return AlreadyResolved(outcome=Anomalous(f"order {message.order_id} is not paid"))
        address = order.get("receipt_email")
        if not isinstance(address, str) or not address:
            unneeded = Succeeded("no receipt is needed: the order has no receipt_email")
            return AlreadyResolved(outcome=unneeded)
        if not self.dependencies.is_configured(SES):
            return AlreadyResolved(outcome=Succeeded(_RECEIPTS_OFF))
        try:
            money = Money.parse(order.get("amount"), order.get("currency"))
        except InvalidMoneyError as error:
            return AlreadyResolved(outcome=Anomalous(f"order {message.order_id}: {error}"))
        email = Email(
            to=address,
            subject=f"Receipt for order {message.order_id}",
            text=(
                f"Thank you. We received {money} for order {message.order_id}.\n"
                f"Payment reference: {order.get('charge_id') or 'none'}\n"
            ),
        )
        values = {"order_id": message.order_id, "to": address}
        customer_id = name if isinstance(name := order.get("customer_id"), str) else None
        return Proceed(facts=email, values=values, customer_id=customer_id)

    def lookup(self, call: EffectCall[Email]) -> LookupOutcome:
        """Read what SES's events prove: SES itself cannot be asked."""
        proved = proved_outcome(call.job)
        if isinstance(proved, Succeeded):
            return replace(proved, result={"message_id": proved.ref})
        if proved is not None:
            return proved
        if not self.dependencies.is_configured(SES):
            return LookupUnsupported()
        if (wait := self.dependencies.provider(SES).event_wait) is None:
            return LookupUnsupported()
        return LookupUnsupported("no event of SES proves that it was sent", wait)

    def execute(self, call: EffectCall[Email]) -> EffectOutcome:
        """Send the email. An ambiguous outcome waits for SES's event, and then needs review."""
        if not self.dependencies.is_configured(SES):
            return NotSent(_RECEIPTS_OFF)
        job = call.job
        key = call.idempotency_key("send")
        mailer = self.dependencies.provider(SES)
        return mailer.send(call.facts, idempotency_key=key, job_key=job.job_key, tag=call.claim_tag)
