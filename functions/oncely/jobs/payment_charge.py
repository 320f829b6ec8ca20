"""payment.charge: charge an order once, at its payment provider."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from oncely import (
    AlreadyResolved,
    Anomalous,
    BusinessId,
    BusinessWrite,
    Call,
    DataOwner,
    Declined,
    EffectOutcome,
    InvalidInputError,
    Job,
    JobKey,
    JobRow,
    Json,
    LookupFailed,
    LookupOutcome,
    Mismatch,
    Money,
    NotConfiguredError,
    NotFound,
    NotThereYet,
    PrecheckResult,
    Precondition,
    Prepared,
    Proceed,
    Succeeded,
    Tools,
    format_time,
    job_key,
)
from oncely.jobs.orders import (
    PAID,
    PAYMENT_FAILED,
    PAYMENT_PENDING,
    PAYMENT_PROCESSING,
    UNPAID,
    Amount,
    Currency,
    amount_label,
    withdraw_request,
)
from oncely.jobs.payment_providers import DEFAULT_PROVIDER, PAYMENT_PROVIDERS
from oncely.jobs.receipt_send import ReceiptSend
from oncely.jobs.tables import CHARGE_SHARD, CHARGE_SHARDS, ORDERS, REQUESTED_INDEX
from oncely.providers.interfaces import VOIDED, Payment, PaymentProvider
from oncely.providers.ses import SES

# The reconciler sends no message for an order before this: the producer's may be on its way.
REQUEST_GRACE: Final = timedelta(minutes=5)
# An order and its resubmissions; more than anyone would submit on purpose.
MAX_ATTEMPTS: Final = 99
# Of any provider. An order row may hold anything, which must not become another request.
_CHARGE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True)
class Order:
    """The charge that the order row describes."""

    order_id: str
    customer_id: str
    money: Money
    stored_currency: str  # the row may have "EUR"; Oncely uses "eur"
    status: object
    provider: str
    payment: Payment
    attempt: int


class PaymentCharge(Job[Order]):
    """The order's customer is charged the order's amount, at most once."""

    key = "order_id"
    key_prefix = "order_"
    provider = PAYMENT_PROVIDERS
    queue = "payments"
    reads = (ORDERS,)
    writes = (ORDERS,)
    settings_of = (SES,)  # without mail, no receipt follows
    takes_money = True
    personal_fields = ("customer_id",)
    data_owner = DataOwner.CUSTOMER
    limits_resubmissions = True  # each confirms a payment, and card networks fine retries
    done_verb = "charged"
    waits_for = "its order"
    business_rows = (
        "the order becomes paid (with its charge_id) or payment_failed, with the job; until "
        "then payment_processing, if its bank takes longer."
    )
    when_finished = "the payment provider reports that the payment of this order succeeded."
    when_failed = (
        "the card was declined, or the bank requires the customer to authenticate. The payment "
        "was canceled, so it cannot succeed later."
    )
    review_when = (
        "when the order cannot be charged, or its payment provider is not configured",
        "when the payment has another amount, or was refunded",
        "when the order names a charge that its payment provider does not have for it",
        "when it is still processing after 14 days, or the limit of its payment method",
        "when its row was enqueued as a resubmission too soon or too often",
        "when the saved payment is not this job's: its key, customer, amount or mode differs",
        "when the payment provider rejects our API key or our request",
    )

    order_id: BusinessId
    # These only check the order's values.
    amount: Amount | None = None
    currency: Currency | None = None
    customer_id: BusinessId | None = None
    attempt: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = 1

    def key_parts(self) -> tuple[str | int, ...]:
        """Return those of `payment.charge:order_18452`, and `…:2` for the first resubmission."""
        return (self.order_id,) if self.attempt == 1 else (self.order_id, self.attempt)

    def subject_id(self) -> str:
        return self.order_id

    @classmethod
    def keys_for_subject(cls, subject: str) -> Iterator[JobKey]:
        return (_key(subject, attempt) for attempt in range(1, MAX_ATTEMPTS + 1))

    def resubmission(self) -> "PaymentCharge | None":
        if self.attempt == MAX_ATTEMPTS:
            return None
        return PaymentCharge.model_validate({**self.to_dict(), "attempt": self.attempt + 1})

    @classmethod
    def success_summary(cls, row: JobRow) -> str:
        if row.is_unconfirmed:
            paid = f"The order's row says it was paid: {amount_label(row)}."
            return f"{paid} No provider confirmed it."
        return f"Charged once: {amount_label(row)} ({_charge_id(row) or 'charge id unknown'})."

    def precheck(self) -> PrecheckResult[Order]:
        """Read the order. Oncely charges its values, not those of the message."""
        row = self.tools.table("orders").get({"order_id": self.order_id})
        if row is None:
            return NotThereYet(waits_for=f"order {self.order_id} to exist")
        order = self._order(row)
        if isinstance(order, str):
            reason = f"order {self.order_id} cannot be charged: {order}"
            return AlreadyResolved(outcome=Anomalous(reason))
        if difference := _message_mismatch(self, order):
            return Mismatch(difference)
        values = {
            "order_id": order.order_id,
            "customer_id": order.customer_id,
            "amount": order.money.amount,
            "currency": order.money.currency,
            "attempt": order.attempt,
            "payment_provider": order.provider,
        }
        if row.get("status") == PAID:
            return _already_resolved(_already_paid(row, order), order, values)
        if row.get("status") not in UNPAID:
            # Such an order cannot become paid, so its customer would need a refund.
            reason = f"order {order.order_id} cannot be charged: its status is {row.get('status')}"
            return _already_resolved(Anomalous(reason), order, values)
        previous_attempt = order.attempt - 1
        return Proceed(
            facts=order,
            values=values,
            provider=order.provider,
            customer_id=order.customer_id,
            money=order.money,
            requires_failed=_key(order.order_id, previous_attempt) if previous_attempt else None,
        )

    @property
    def _client(self) -> PaymentProvider:
        """The provider of this job: the row's, even if the order has another one now."""
        if (plugin := PAYMENT_PROVIDERS.get(self.provider_name or "")) is None:
            raise NotConfiguredError(
                f"this deployment has no payment provider {self.provider_name!r}: configure it, "
                "and deploy again"
            )
        return self.tools.provider(plugin)

    def _order(self, row: Mapping[str, object]) -> Order | str:
        """Return the order as facts, or why it cannot be charged."""
        provider = row.get("payment_provider", DEFAULT_PROVIDER)
        plugins = sorted(PAYMENT_PROVIDERS.items())
        known = [name for name, plugin in plugins if self.tools.is_configured(plugin)]
        if not isinstance(provider, str) or provider not in known:
            return f"its payment_provider is {provider!r}, this deployment has {', '.join(known)}"
        return _order(row, self, provider)

    def key_scope(self) -> str:
        return self._client.key_scope() if self.provider_name else ""

    def confirm(self, call: Call[Order], claimed: Succeeded) -> LookupOutcome:
        """Ask for the charge that the order's row names. Without one, nobody can be asked."""
        charge_id = str(claimed.result["charge_id"])
        return self._find_charge(call, charge_id) if charge_id else claimed

    def _find_charge(self, call: Call[Order], charge_id: str) -> LookupOutcome:
        """Compare a charge with the order. One that was made before Oncely names no job."""
        order, ledger, name = call.facts, self._client.ledger, self.policy.profile.name
        found = ledger.find_charge(charge_id) if _CHARGE_ID.fullmatch(charge_id) else None
        if isinstance(found, LookupFailed):
            return found
        ours = {ledger.job_label(key) for key in self.keys_for_subject(order.order_id)}
        if found is None:
            difference = f"{name} knows no such charge that took money"
        elif not found.moved_money:
            difference = f"{name} has it as failed, canceled or voided"
        elif found.money != order.money:
            difference = f"{name} took {found.money} with it, not {order.money}"
        elif found.job_label is not None and found.job_label not in ours:
            difference = f"{name} has it as the charge of {found.job_label}"
        elif found.job_label is not None and found.deployment not in {None, call.row.deployment}:
            difference = f"{name} has it as a charge of the deployment {found.deployment}"
        else:
            money = order.money
            return Succeeded(
                f"{_paid_by(charge_id)}, and {name} confirms it",
                result={
                    "charge_id": found.entry_id,
                    "amount": money.amount,
                    "currency": money.currency,
                },
            )
        # What an earlier run of this job sent may have arrived.
        may_have_charged = call.row.provider_ref is not None or call.row.has_ambiguous_send
        own = "look up whether this job charged as well"
        own = own if may_have_charged else "this job charged nothing"
        return Anomalous(f"{_paid_by(charge_id)}, but {difference}; {own}")

    def prepare(self, call: Call[Order]) -> Prepared | EffectOutcome:
        """Create an unconfirmed intent. Without its saved reference, nothing can be charged."""
        return self._client.prepare(_payment(call), idempotency_key=call.idempotency_key("create"))

    def find_prepared(self, call: Call[Order]) -> Prepared | LookupOutcome:
        return self._client.find(_payment(call))

    def execute(self, call: Call[Order]) -> EffectOutcome:
        """Confirm the saved intent. If another run created it, verify it first."""
        ref = call.row.provider_ref
        if ref is None:
            return Anomalous("no payment was prepared, so there is nothing to confirm")
        key = call.idempotency_key("confirm")
        return self._client.execute(
            ref, _payment(call), idempotency_key=key, verified=call.verified
        )

    def lookup(self, call: Call[Order]) -> LookupOutcome:
        """Read the intent. Without a reference, nothing can have been confirmed."""
        ref = call.row.provider_ref
        if call.row.status.is_finished and (charge := _charge_of_others(call.row)):
            return self._find_charge(call, charge)
        if ref is None:
            return NotFound("no payment was prepared, so nothing was charged", conclusive=True)
        outcome = self._client.lookup(ref, _payment(call))
        if call.row.status.is_finished and isinstance(outcome, Declined) and outcome.code == VOIDED:
            # A refund before settlement is a void. Like any other refund, it contradicts no end.
            reason = f"{ref} was charged, and voided since: {outcome.reason}"
            return Anomalous(reason, ref, undone=True)
        return outcome

    @classmethod
    def references(cls, outcome: LookupOutcome) -> frozenset[str]:
        """Return the ids of the intent and of its charge: Stripe's dashboard shows both."""
        result = getattr(outcome, "result", {})
        ids = (result.get(name) for name in ("payment_intent", "charge_id"))
        return super().references(outcome) | {str(one) for one in ids if one}

    def close(self, call: Call[Order]) -> EffectOutcome:
        """Cancel the intent: a declined one could still be confirmed."""
        ref = call.row.provider_ref
        if ref is None:
            return Declined("no payment was prepared", code="not_prepared")
        return self._client.close(ref, _payment(call), verified=call.verified)

    def lookup_closed(self, row: JobRow) -> LookupOutcome:
        """Read whether the intent can still take money. Without an intent, nothing can."""
        if row.provider_ref is None:
            return Declined("no payment was prepared", code="not_prepared")
        return self._client.lookup_closed(
            row.provider_ref, job_key=row.job_key, deployment=row.deployment
        )

    def on_success(self, call: Call[Order]) -> tuple[BusinessWrite, ...]:
        """Mark the order paid, if its values are still those that were charged."""
        return (_order_update(PAID, call.facts, charge_id=_charge_id(call.row)),)

    def on_failure(self, call: Call[Order]) -> tuple[BusinessWrite, ...]:
        return (_order_update(PAYMENT_FAILED, call.facts),)

    def on_pending(self, call: Call[Order]) -> tuple[BusinessWrite, ...]:
        """Show the order as processing, once: a bank debit takes days."""
        if call.facts.status not in {PAYMENT_PENDING, PAYMENT_FAILED}:
            return ()
        return (_order_update(PAYMENT_PROCESSING, call.facts),)

    def on_cancel(self, call: Call[Order]) -> tuple[BusinessWrite, ...]:
        """Withdraw the request, so that no charge follows when the row has expired."""
        return (withdraw_request(call.facts.order_id),)

    @classmethod
    def missing_jobs(cls, tools: Tools, *, now: datetime) -> Iterator["PaymentCharge"]:
        """Find orders whose charge was requested. A pending order alone requests nothing."""
        rows = tools.table("orders").query_index(
            REQUESTED_INDEX,
            partitions=(CHARGE_SHARD, [str(shard) for shard in range(CHARGE_SHARDS)]),
            max_sort_key=("charge_requested_at", format_time(now - REQUEST_GRACE)),
        )
        for row in rows:
            if row.get("status") != PAYMENT_PENDING:
                continue
            with suppress(ValidationError):  # the order id is not valid in a message
                yield PaymentCharge.model_validate({"order_id": row["order_id"]})

    def follow_ups(self, row: JobRow) -> tuple[Job[Any], ...]:
        if not row.status.is_finished or not self.tools.is_configured(SES):
            return ()
        return (ReceiptSend(order_id=self.order_id),)


def _payment(call: Call[Order]) -> Payment:
    return replace(call.facts.payment, deployment=call.row.deployment)


def _key(order_id: str, attempt: int) -> JobKey:
    suffix = () if attempt == 1 else (attempt,)
    return job_key("payment.charge", order_id, *suffix, prefix="order_")


def _charge_id(row: JobRow) -> Json:
    return (row.result or {}).get("charge_id")


def _charge_of_others(job: JobRow) -> str | None:
    """The charge that had paid the order. Returns None if it is of this job's own reference."""
    result = job.result or {}
    charge = result.get("charge_id")
    own = {charge, result.get("payment_intent", charge)}
    return str(charge) if charge and job.provider_ref not in own else None


def _order(row: Mapping[str, object], charge: PaymentCharge, provider: str) -> Order | str:
    try:
        money = Money.parse(row.get("amount"), row.get("currency"))
    except InvalidInputError as error:
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
        job_key=_key(charge.order_id, charge.attempt),
        order_id=charge.order_id,
    )
    return Order(
        order_id=charge.order_id,
        customer_id=named["customer_id"],
        money=money,
        stored_currency=str(row["currency"]),
        status=row.get("status"),
        provider=provider,
        payment=payment,
        attempt=charge.attempt,
    )


def _message_mismatch(charge: PaymentCharge, order: Order) -> str | None:
    compared = {
        "amount": (charge.amount, order.money.amount),
        "currency": (charge.currency, order.money.currency),
        "customer_id": (charge.customer_id, order.customer_id),
    }
    for name, (theirs, ours) in compared.items():
        if theirs is not None and theirs != ours:
            return f"the message has {name} {theirs}, but order {order.order_id} has {ours}"
    return None


def _already_paid(row: Mapping[str, object], order: Order) -> Succeeded:
    charge = str(row.get("charge_id") or "")
    money = order.money
    return Succeeded(
        _paid_by(charge) if charge else "the order's row says it was paid, without a charge_id",
        result={"charge_id": charge, "amount": money.amount, "currency": money.currency},
    )


def _paid_by(charge_id: str) -> str:
    return f"the order's row says it was paid by charge {charge_id[:100]}"


def _already_resolved(
    outcome: Succeeded | Anomalous, order: Order, values: Mapping[str, object]
) -> AlreadyResolved[Order]:
    # With the facts, the reconciler can look up a charge that may still be open.
    return AlreadyResolved(
        outcome=outcome,
        facts=order,
        values=values,
        provider=order.provider,
        customer_id=order.customer_id,
        money=order.money,
    )


def _order_update(status: str, order: Order, **more: object) -> BusinessWrite:
    return BusinessWrite(
        table="orders",
        key={"order_id": order.order_id},
        set={"status": status, **{name: str(value) for name, value in more.items() if value}},
        remove=("charge_requested_at",),
        preconditions=(
            Precondition("status", UNPAID),
            # If the order changed since the claim, the charge does not pay for it.
            Precondition("amount", (order.money.amount,)),
            Precondition("currency", (order.stored_currency,)),
            Precondition("customer_id", (order.customer_id,)),
        ),
    )
