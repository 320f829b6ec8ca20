"""receipt.send: email the receipt of a paid order, at most once."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from oncely import (
    MAX_ID_LENGTH,
    AlreadyResolved,
    Anomalous,
    Contract,
    Description,
    EffectCall,
    EffectOutcome,
    InvalidMoneyError,
    Job,
    JobKey,
    Message,
    Money,
    NotSent,
    PrecheckResult,
    Proceed,
    Resources,
    RetryPolicy,
    RetrySafety,
    Succeeded,
    claim_tag,
    job_key,
)
from oncely.jobs.tables import ORDERS
from oncely.providers.interfaces import Email
from oncely.providers.ses import SES

_RECEIPTS_OFF = "receipts are off: no sender address is configured"


class ReceiptMessage(Message):
    """A request to email the receipt of an order."""

    job: Literal["receipt.send"]
    v: Literal[1]
    order_id: Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH)]


class ReceiptSend(Contract[ReceiptMessage, Email]):
    """The job type that emails a receipt."""

    job_type = "receipt.send"
    message = ReceiptMessage
    example = ReceiptMessage.model_construct(job="receipt.send", v=1, order_id="18452")
    policy = RetryPolicy(safety=RetrySafety.AT_MOST_ONCE, profile=SES.profile)
    resources = Resources(queue="mail", tables=(ORDERS,), providers=(SES,))
    description = Description(
        done_verb="sent",
        effect="one email goes to the order's receipt_email, or none.",
        business_rows="none.",
        success="SES accepted the email; its message id is stored.",
        failure="SES declines this email, for example because of its address.",
        review_when=("when SES may or may not have sent the email: Oncely never sends it again",),
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
    def success_summary(cls, job: Job) -> str:
        if job.provider_ref is None:
            return "No receipt was sent: the order has no receipt_email, or receipts are off."
        return f"One receipt was accepted by the email provider ({job.provider_ref})."

    def precheck(self, message: ReceiptMessage) -> PrecheckResult[Email]:
        """Read the order. An order without an address needs no receipt."""
        order = self.dependencies.table("orders").get({"order_id": message.order_id})
        if order is None:
            return AlreadyResolved(outcome=Anomalous(f"order {message.order_id} does not exist"))
        if order.get("status") != "paid":
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
        customer = order.get("customer_id")
        customer_id = customer if isinstance(customer, str) else None
        return Proceed(facts=email, values=values, customer_id=customer_id)

    def execute(self, call: EffectCall[Email]) -> EffectOutcome:
        """Send the email. An ambiguous outcome needs review."""
        if not self.dependencies.is_configured(SES):
            return NotSent(_RECEIPTS_OFF)
        job = call.job
        tag = claim_tag(job.job_key, deployment=job.deployment, fence=job.fence)
        return self.dependencies.provider(SES).send(
            call.facts, idempotency_key=call.idempotency_key("send"), tag=tag
        )
