"""payment.charge: charge an order once, at Stripe."""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from oncely import (
    MAX_ID_LENGTH,
    AlreadyResolved,
    Anomalous,
    BusinessWrite,
    Contract,
    Declined,
    Description,
    EffectCall,
    EffectOutcome,
    InvalidMoneyError,
    Job,
    JobKey,
    Json,
    Message,
    Mismatch,
    Money,
    NotFound,
    PrecheckResult,
    Precondition,
    Prepared,
    Proceed,
    Resources,
    RetryPolicy,
    RetrySafety,
    Status,
    Succeeded,
    format_time,
    job_key,
)
from oncely.jobs.receipt_send import ReceiptMessage
from oncely.jobs.tables import CHARGE_SHARD, ORDERS, REQUESTED_INDEX
from oncely.providers.interfaces import Payment
from oncely.providers.ses import SES
from oncely.providers.stripe import STRIPE

_JOB = "payment.charge"
_PAID, _FAILED = "paid", "payment_failed"
_UNPAID = ("payment_pending", _FAILED)

CHARGE_SHARDS: Final = 16
# The reconciler sends no message for an order before this: the producer's may be on its way.
REQUEST_GRACE: Final = timedelta(minutes=5)
# An order and its resubmissions; more than anyone would submit on purpose.
MAX_ATTEMPTS: Final = 99

_BusinessId = Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH)]
Currency = Annotated[
    str,
    Field(pattern=r"^[A-Za-z]{3}$", description="three letters, such as eur"),
    AfterValidator(str.lower),
]


class ChargeMessage(Message):
    """A request to charge an order. Other fields only check the order's values."""

    job: Literal["payment.charge"]
    v: Literal[1]
    order_id: _BusinessId
    amount: Annotated[int, Field(gt=0, description="in minor units: 1250 is 12.50")] | None = None
    currency: Currency | None = None
    customer_id: _BusinessId | None = None
    attempt: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = 1


@dataclass(frozen=True)
class Order:
    """The charge that the order row describes."""

    order_id: str
    customer_id: str
    money: Money
    stored_currency: str  # the row may have "EUR"; Stripe and Oncely use "eur"
    payment: Payment
    attempt: int


class PaymentCharge(Contract[ChargeMessage, Order]):
    """The job type that charges an order."""

    job_type = _JOB
    message = ChargeMessage
    example = ChargeMessage.model_construct(job="payment.charge", v=1, order_id="18452")
    policy = RetryPolicy(safety=RetrySafety.KEYED, profile=STRIPE.profile, leaves_open=True)
    takes_money = True
    resources = Resources(queue="payments", tables=(ORDERS,), providers=(STRIPE,))
    description = Description(
        done_verb="charged",
        effect="the order's customer is charged the order's amount, at most once.",
        business_rows=(
            "the order becomes paid (with its charge_id) or payment_failed, with the job."
        ),
        success="Stripe reports that the payment of this order succeeded.",
        failure=(
            "the card was declined, or the bank requires the customer to authenticate. The payment "
            "was canceled, so it cannot succeed later."
        ),
        review_when=(
            "when the order is missing or cannot be charged",
            "when the payment has another amount, or was refunded",
            "when the saved payment is not this job's: its key, customer, amount or mode differs",
            "when Stripe rejects our API key or our request",
        ),
    )

    @classmethod
    def key(cls, message: ChargeMessage) -> JobKey:
        """Return `payment.charge:order_18452`, and `…:2` for the first resubmission."""
        return _key(message.order_id, message.attempt)

    @classmethod
    def subject(cls, message: ChargeMessage) -> str:
        return message.order_id

    @classmethod
    def keys_for_subject(cls, subject: str) -> Iterator[JobKey]:
        return (_key(subject, attempt) for attempt in range(1, MAX_ATTEMPTS + 1))

    @classmethod
    def resubmission(cls, message: ChargeMessage) -> ChargeMessage | None:
        if message.attempt == MAX_ATTEMPTS:
            return None
        return ChargeMessage.model_validate({**message.to_dict(), "attempt": message.attempt + 1})

    @classmethod
    def success_summary(cls, job: Job) -> str:
        return f"Charged once: {_amount_label(job)} ({_charge_id(job) or 'charge id unknown'})."

    def precheck(self, message: ChargeMessage) -> PrecheckResult[Order]:
        """Read the order. Oncely charges its values, not those of the message."""
        row = self.dependencies.table("orders").get({"order_id": message.order_id})
        if row is None:
            return AlreadyResolved(outcome=Anomalous(f"order {message.order_id} does not exist"))
        order = _order(row, message)
        if isinstance(order, str):
            reason = f"order {message.order_id} cannot be charged: {order}"
            return AlreadyResolved(outcome=Anomalous(reason))
        if difference := _message_mismatch(message, order):
            return Mismatch(difference)
        values = {
            "order_id": order.order_id,
            "customer_id": order.customer_id,
            "amount": order.money.amount,
            "currency": order.money.currency,
            "attempt": order.attempt,
        }
        if row.get("status") == _PAID:
            return _already_resolved(_already_paid(row, order), order, values)
        if row.get("status") not in _UNPAID:
            # Such an order cannot become paid, so its customer would need a refund.
            reason = f"order {order.order_id} cannot be charged: its status is {row.get('status')}"
            return _already_resolved(Anomalous(reason), order, values)
        previous_attempt = order.attempt - 1
        return Proceed(
            facts=order,
            values=values,
            customer_id=order.customer_id,
            money=order.money,
            requires_failed=_key(order.order_id, previous_attempt) if previous_attempt else None,
        )

    def key_scope(self) -> str:
        return self.dependencies.provider(STRIPE).key_scope()

    def prepare(self, call: EffectCall[Order]) -> Prepared | EffectOutcome:
        """Create an unconfirmed intent. Without its saved reference, nothing can be charged."""
        return self.dependencies.provider(STRIPE).prepare(
            _payment(call), idempotency_key=call.idempotency_key("create")
        )

    def find_prepared(self, call: EffectCall[Order]) -> Prepared | EffectOutcome:
        return self.dependencies.provider(STRIPE).find(_payment(call))

    def execute(self, call: EffectCall[Order]) -> EffectOutcome:
        """Confirm the saved intent. If another run created it, verify it first."""
        ref = call.job.provider_ref
        if ref is None:
            return Anomalous("no payment was prepared, so there is nothing to confirm")
        key = call.idempotency_key("confirm")
        return self.dependencies.provider(STRIPE).execute(
            ref, _payment(call), idempotency_key=key, verified=call.verified
        )

    def lookup(self, call: EffectCall[Order]) -> EffectOutcome:
        """Read the intent. Without a reference, nothing can have been confirmed."""
        ref = call.job.provider_ref
        if ref is None:
            return NotFound("no payment was prepared, so nothing was charged", conclusive=True)
        return self.dependencies.provider(STRIPE).lookup(ref, _payment(call))

    def close(self, call: EffectCall[Order]) -> EffectOutcome:
        """Cancel the intent: a declined one could still be confirmed."""
        ref = call.job.provider_ref
        if ref is None:
            return Declined("no payment was prepared", code="not_prepared")
        return self.dependencies.provider(STRIPE).close(ref, _payment(call), verified=call.verified)

    def lookup_closed(self, job: Job) -> EffectOutcome:
        """Read whether the intent can still take money. Without an intent, nothing can."""
        if job.provider_ref is None:
            return Declined("no payment was prepared", code="not_prepared")
        return self.dependencies.provider(STRIPE).lookup_closed(
            job.provider_ref, job_key=job.job_key, deployment=job.deployment
        )

    def on_success(self, facts: Order, job: Job) -> tuple[BusinessWrite, ...]:
        """Mark the order paid, if its values are still those that were charged."""
        return (_order_update(_PAID, facts, charge_id=_charge_id(job)),)

    def on_failure(self, facts: Order, job: Job) -> tuple[BusinessWrite, ...]:
        del job
        return (_order_update(_FAILED, facts),)

    def missing_jobs(self, *, now: datetime) -> Iterator[ChargeMessage]:
        """Find orders whose charge was requested. A pending order alone requests nothing."""
        rows = self.dependencies.table("orders").query_index(
            REQUESTED_INDEX,
            partitions=(CHARGE_SHARD, [str(shard) for shard in range(CHARGE_SHARDS)]),
            max_sort_key=("charge_requested_at", format_time(now - REQUEST_GRACE)),
        )
        for row in rows:
            if row.get("status") != "payment_pending":
                continue
            with suppress(ValidationError):  # the order id is not valid in a message
                charge = {"job": _JOB, "v": 1, "order_id": row["order_id"]}
                yield ChargeMessage.model_validate(charge)

    def follow_ups(self, job: Job) -> tuple[Message, ...]:
        if job.status is not Status.FINISHED or not self.dependencies.is_configured(SES):
            return ()
        receipt = {"job": "receipt.send", "v": 1, "order_id": job.message["order_id"]}
        return (ReceiptMessage.model_validate(receipt),)


def charge_shard(order_id: str) -> str:
    """Return the `charge_shard` of an order. Any even spread over "0" to "15" works."""
    return str(zlib.crc32(order_id.encode()) % CHARGE_SHARDS)


def _payment(call: EffectCall[Order]) -> Payment:
    return replace(call.facts.payment, deployment=call.job.deployment)


def _key(order_id: str, attempt: int) -> JobKey:
    suffix = () if attempt == 1 else (attempt,)
    return job_key(_JOB, order_id, *suffix, prefix="order_")


def _charge_id(job: Job) -> Json:
    result = job.result or {}
    return result.get("charge_id") or result.get("reference")  # from the operator


def _amount_label(job: Job) -> str:
    # From the claim or, if it is missing there, from Stripe's response.
    result = job.result or {}
    amount, currency = job.amount or result.get("amount"), job.currency or result.get("currency")
    try:
        return str(Money.parse(amount, currency))
    except InvalidMoneyError:
        return "the order's amount"


def _order(row: Mapping[str, object], message: ChargeMessage) -> Order | str:
    """Return the order as facts, or why it cannot be charged."""
    try:
        money = Money.parse(row.get("amount"), row.get("currency"))
    except InvalidMoneyError as error:
        return str(error)
    named = {}
    for name in ("customer_id", "payment_customer", "payment_method"):
        if not isinstance(value := row.get(name), str) or not value:
            return f"{name} is missing"
        named[name] = value
    payment = Payment(
        money=money,
        customer=named["payment_customer"],
        method=named["payment_method"],
        job_key=_key(message.order_id, message.attempt),
        order_id=message.order_id,
    )
    return Order(
        order_id=message.order_id,
        customer_id=named["customer_id"],
        money=money,
        stored_currency=str(row["currency"]),
        payment=payment,
        attempt=message.attempt,
    )


def _message_mismatch(message: ChargeMessage, order: Order) -> str | None:
    compared = {
        "amount": (message.amount, order.money.amount),
        "currency": (message.currency, order.money.currency),
        "customer_id": (message.customer_id, order.customer_id),
    }
    for name, (theirs, ours) in compared.items():
        if theirs is not None and theirs != ours:
            return f"the message has {name} {theirs}, but order {order.order_id} has {ours}"
    return None


def _already_paid(row: Mapping[str, object], order: Order) -> Succeeded:
    charge = str(row.get("charge_id") or "")
    money = order.money
    return Succeeded(
        f"the order was already paid by charge {charge or 'unknown'}",
        result={"charge_id": charge, "amount": money.amount, "currency": money.currency},
    )


def _already_resolved(
    outcome: Succeeded | Anomalous, order: Order, values: Mapping[str, object]
) -> AlreadyResolved[Order]:
    # With the facts, the reconciler can look up a charge that may still be open.
    customer_id, money = order.customer_id, order.money
    return AlreadyResolved(
        outcome=outcome, facts=order, values=values, customer_id=customer_id, money=money
    )


def _order_update(status: str, order: Order, **more: object) -> BusinessWrite:
    return BusinessWrite(
        table="orders",
        key={"order_id": order.order_id},
        set={"status": status, **{name: str(value) for name, value in more.items() if value}},
        remove=("charge_requested_at",),
        preconditions=(
            Precondition("status", _UNPAID),
            # If the order changed since the claim, the charge does not pay for it.
            Precondition("amount", (order.money.amount,)),
            Precondition("currency", (order.stored_currency,)),
            Precondition("customer_id", (order.customer_id,)),
        ),
    )
