"""payment.charge: charge an order once, at Stripe."""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from oncely.contract import (
    Call,
    Contract,
    Message,
    Mismatch,
    Needs,
    Proceed,
    Settled,
    Standing,
    Words,
)
from oncely.contracts.receipt_send import ReceiptMessage
from oncely.domain.answers import Absent, Answer, Done, Odd, Prepared, Refused
from oncely.domain.errors import InvalidMoneyError
from oncely.domain.jobs import Job
from oncely.domain.keys import MAX_PART, JobKey, job_key
from oncely.domain.lifecycle import Status
from oncely.domain.money import Money
from oncely.domain.profiles import STRIPE, Safety, Terms
from oncely.domain.times import time_text
from oncely.domain.writes import Expect, LocalWrite
from oncely.providers import Payment

_JOB = "payment.charge"
_PAID = "paid"
_FAILED = "payment_failed"
_UNPAID = ("payment_pending", _FAILED)

# The sparse index of orders that asked for their payment and have not got it. Its partition is an
# attribute that whoever sets `charge_requested_at` sets with it: one partition would take 500
# payments a second.
REQUESTED_INDEX: Final = "charge_requested"
CHARGE_SHARD: Final = "charge_shard"
CHARGE_SHARDS: Final = 16
# The producer's own message is on its way; nobody else sends one before this.
REQUEST_GRACE: Final = timedelta(minutes=5)
# Business attempts of one order; nobody tries a card more often on purpose.
MAX_ATTEMPT: Final = 99

Id = Annotated[str, Field(min_length=1, max_length=MAX_PART)]
Currency = Annotated[
    str,
    Field(pattern=r"^[A-Za-z]{3}$", description="three letters, such as eur"),
    AfterValidator(str.lower),
]


class ChargeMessage(Message):
    """Charge this order; what else is said is checked against the order, never used instead."""

    job: Literal["payment.charge"]
    v: Literal[1]
    order_id: Id
    amount: Annotated[int, Field(gt=0, description="in minor units: 1250 is 12.50")] | None = None
    currency: Currency | None = None
    customer_id: Id | None = None
    attempt: Annotated[int, Field(ge=1, le=MAX_ATTEMPT)] = 1


@dataclass(frozen=True)
class Order:
    """What there is to charge, as the order row says."""

    order_id: str
    customer_id: str
    money: Money
    currency_as_stored: str  # a row may say "EUR"; Stripe and we say "eur"
    payment: Payment
    attempt: int


class PaymentCharge(Contract[ChargeMessage, Order]):
    """Charges an order; see `words` for what that means."""

    job_type = _JOB
    message = ChargeMessage
    example = ChargeMessage.model_construct(job="payment.charge", v=1, order_id="18452")
    terms = Terms(safety=Safety.KEYED, profile=STRIPE, leaves_open=True)
    takes_money = True
    needs = Needs(queue="payments", tables=("orders",), secrets=("stripe",))
    words = Words(
        deed="charged",
        outside="the order's customer is charged the order's amount, at most once.",
        rows="the order becomes paid (with its charge_id) or payment_failed, with the job.",
        success="Stripe says that the payment of this order succeeded.",
        failure=(
            "the card was declined, or the bank wants the customer to authenticate; the payment "
            "was canceled, so that it cannot succeed later."
        ),
        alerts=(
            "when the order is missing or cannot be charged as it stands",
            "when the payment is found with another amount, or refunded",
            "when the saved payment is not this job's: its key, customer, amount or mode differs",
            "when Stripe refuses our key or our request",
        ),
    )

    @classmethod
    def key(cls, message: ChargeMessage) -> JobKey:
        """`payment.charge:order_18452`, and `…:2` for a second business attempt."""
        return _key(message.order_id, message.attempt)

    @classmethod
    def subject(cls, message: ChargeMessage) -> str:
        """People ask by the order."""
        return message.order_id

    @classmethod
    def keys_of(cls, subject: str) -> Iterator[JobKey]:
        """Every business attempt, the first one first."""
        return (_key(subject, attempt) for attempt in range(1, MAX_ATTEMPT + 1))

    @classmethod
    def another_attempt(cls, message: ChargeMessage) -> ChargeMessage | None:
        """The same order, one business attempt on; what the first message said is said again."""
        if message.attempt == MAX_ATTEMPT:
            return None
        return ChargeMessage.model_validate({**message.as_json(), "attempt": message.attempt + 1})

    @classmethod
    def done_words(cls, job: Job) -> str:
        """How much, how often, and by which charge."""
        result = job.result or {}
        charge = result.get("charge_id") or result.get("reference")
        return f"Charged once: {_charged(job)} ({charge or 'no charge id is known'})."

    def check(self, message: ChargeMessage) -> Standing[Order]:
        """Read the order; its values, not the message's, are what is charged."""
        row = self.tools.table("orders").get({"order_id": message.order_id})
        if row is None:
            return Settled(answer=Odd(f"order {message.order_id} does not exist"))
        order = _order(row, message)
        if isinstance(order, str):
            return Settled(answer=Odd(f"order {message.order_id} cannot be charged: {order}"))
        if difference := _difference(message, order):
            return Mismatch(difference)
        values = {
            "order_id": order.order_id,
            "customer_id": order.customer_id,
            "amount": order.money.amount,
            "currency": order.money.currency,
            "attempt": order.attempt,
        }
        if row.get("status") == _PAID:
            return _settled(_paid_before(row, order), order, values)
        if row.get("status") not in _UNPAID:
            # It could not become paid: who is charged for it must be given the money back.
            told = f"order {order.order_id} cannot be charged: its status is {row.get('status')}"
            return _settled(Odd(told), order, values)
        former = order.attempt - 1
        return Proceed(
            facts=order,
            values=values,
            customer_id=order.customer_id,
            money=order.money,
            requires_failed=_key(order.order_id, former) if former else None,
        )

    def scope(self) -> str:
        """The Stripe account that our key belongs to."""
        return self.tools.payments().scope()

    def prepare(self, call: Call[Order]) -> Prepared | Answer:
        """Make an unconfirmed intent; without a saved reference to one, nothing was charged."""
        return self.tools.payments().prepare(_payment(call), key=call.key("create"))

    def find_prepared(self, call: Call[Order]) -> Prepared | Answer:
        """List the customer's payments: a restored row may lack the reference of one."""
        return self.tools.payments().find(_payment(call))

    def act(self, call: Call[Order]) -> Answer:
        """Confirm the intent whose reference is saved; one of another run is verified first."""
        ref = call.job.provider_ref
        if ref is None:
            return Odd("there is no saved payment to confirm")
        return self.tools.payments().execute(
            ref, _payment(call), key=call.key("confirm"), verified=call.verified
        )

    def ask(self, call: Call[Order]) -> Answer:
        """Read the intent; no reference means that nothing can have been confirmed."""
        ref = call.job.provider_ref
        if ref is None:
            return Absent("no payment was prepared, so nothing was charged", proved=True)
        return self.tools.payments().look_up(ref, _payment(call))

    def close(self, call: Call[Order]) -> Answer:
        """Cancel the intent: a declined one could still be confirmed."""
        ref = call.job.provider_ref
        if ref is None:
            return Refused("no payment was prepared", code="not_prepared")
        return self.tools.payments().close(ref, _payment(call), verified=call.verified)

    def ask_closed(self, job: Job) -> Answer:
        """Read whether the intent can still take money; without one, none can."""
        if job.provider_ref is None:
            return Refused("no payment was prepared", code="not_prepared")
        return self.tools.payments().ask_closed(
            job.provider_ref, job_key=job.job_key, deployment=job.deployment
        )

    def on_success(self, facts: Order, job: Job) -> tuple[LocalWrite, ...]:
        """The order becomes paid, if it is still the order that was charged."""
        result = job.result or {}
        charge = result.get("charge_id") or result.get("reference")  # as a person gave it
        return (_order_becomes(_PAID, facts, charge_id=charge),)

    def on_failure(self, facts: Order, job: Job) -> tuple[LocalWrite, ...]:
        """The order becomes payment_failed."""
        del job
        return (_order_becomes(_FAILED, facts),)

    def unserved(self, *, now: datetime) -> Iterator[ChargeMessage]:
        """Orders whose payment was asked for; one that is merely pending never asked."""
        rows = self.tools.table("orders").waiting(
            REQUESTED_INDEX,
            partitions=(CHARGE_SHARD, [str(shard) for shard in range(CHARGE_SHARDS)]),
            up_to=("charge_requested_at", time_text(now - REQUEST_GRACE)),
        )
        for row in rows:
            if row.get("status") != "payment_pending":
                continue
            with suppress(ValidationError):  # an id that no message could carry
                yield ChargeMessage.model_validate(
                    {
                        "job": _JOB,
                        "v": 1,
                        "order_id": row["order_id"],
                    }
                )

    def follow_ups(self, job: Job) -> tuple[Message, ...]:
        """A receipt for what was paid, unless no mail is sent at all."""
        if job.status is not Status.FINISHED or self.tools.mailer() is None:
            return ()
        order_id = job.message["order_id"]
        return (
            ReceiptMessage.model_validate({"job": "receipt.send", "v": 1, "order_id": order_id}),
        )


def charge_shard(order_id: str) -> str:
    """What to set `charge_shard` to; any of "0" to "15" will do, if orders spread over them."""
    return str(zlib.crc32(order_id.encode()) % CHARGE_SHARDS)


def _payment(call: Call[Order]) -> Payment:
    """What to charge, in the name of the deployment that the row belongs to."""
    return replace(call.facts.payment, deployment=call.job.deployment)


def _key(order_id: str, attempt: int) -> JobKey:
    later = () if attempt == 1 else (attempt,)
    return job_key(_JOB, order_id, *later, prefix="order_")


def _charged(job: Job) -> str:
    """What was charged, as the claim resolved it or as Stripe told it."""
    result = job.result or {}
    try:
        return str(
            Money.of(job.amount or result.get("amount"), job.currency or result.get("currency"))
        )
    except InvalidMoneyError:
        return "the order's amount"


def _order(row: Mapping[str, object], message: ChargeMessage) -> Order | str:
    """The order as facts, or what is wrong with it."""
    try:
        money = Money.of(row.get("amount"), row.get("currency"))
    except InvalidMoneyError as error:
        return str(error)
    named = {}
    for name in ("customer_id", "payment_customer", "payment_method"):
        value = row.get(name)
        if not isinstance(value, str) or not value:
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
        currency_as_stored=str(row["currency"]),
        payment=payment,
        attempt=message.attempt,
    )


def _difference(message: ChargeMessage, order: Order) -> str | None:
    said = {
        "amount": (message.amount, order.money.amount),
        "currency": (message.currency, order.money.currency),
        "customer_id": (message.customer_id, order.customer_id),
    }
    for name, (theirs, ours) in said.items():
        if theirs is not None and theirs != ours:
            return f"the message says {name} {theirs}, order {order.order_id} says {ours}"
    return None


def _paid_before(row: Mapping[str, object], order: Order) -> Done:
    charge = str(row.get("charge_id") or "")
    return Done(
        f"the order was paid already by charge {charge or 'unknown'}",
        result={
            "charge_id": charge,
            "amount": order.money.amount,
            "currency": order.money.currency,
        },
    )


def _settled(answer: Done | Odd, order: Order, values: Mapping[str, object]) -> Settled[Order]:
    """The end is known; what was asked for as well, for whoever must ask about an open charge."""
    return Settled(
        answer=answer,
        facts=order,
        values=values,
        customer_id=order.customer_id,
        money=order.money,
    )


def _order_becomes(status: str, order: Order, **more: object) -> LocalWrite:
    return LocalWrite(
        table="orders",
        key={"order_id": order.order_id},
        set={"status": status, **{name: str(value) for name, value in more.items() if value}},
        remove=("charge_requested_at",),
        expect=(
            Expect("status", _UNPAID),
            # Charged is what the order said then; an order that says something else by now
            # must not be called paid.
            Expect("amount", (order.money.amount,)),
            Expect("currency", (order.currency_as_stored,)),
            Expect("customer_id", (order.customer_id,)),
        ),
    )
