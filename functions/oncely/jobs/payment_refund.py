"""payment.refund: refund a paid order as the shop's refund request says, once for each request."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar, Final

from oncely import (
    AlreadyResolved,
    Anomalous,
    BusinessId,
    BusinessWrite,
    Call,
    DataOwner,
    EffectOutcome,
    InvalidInputError,
    Job,
    JobRow,
    LookupFailed,
    LookupOutcome,
    Mismatch,
    Money,
    NotFound,
    NotSent,
    NotThereYet,
    PrecheckResult,
    Prepared,
    Proceed,
    Reserved,
    format_time,
    parse_time,
)
from oncely.jobs.orders import (
    PAYMENT_FAILED,
    PAYMENT_PENDING,
    PAYMENT_PROCESSING,
    Amount,
    Currency,
    amount_label,
)
from oncely.jobs.payment_providers import DEFAULT_PROVIDER, PAYMENT_PROVIDERS
from oncely.jobs.refund_ledger import RefundLedger, RefundState, charge_objection, end_entry
from oncely.jobs.tables import ORDERS, REFUND_REQUESTS, REFUNDS
from oncely.providers.interfaces import PaymentProvider, Refund

# The slowest payment that a refund waits for is a bank debit.
_GRACE_PERIOD = timedelta(days=30)
# The clock that dated a request may be ahead of ours by this much.
_SHOP_CLOCK_SKEW = timedelta(minutes=1)
# How long the list of a charge's refunds may miss a new one. No provider documents a limit, and a
# list that was believed too early refunded twice. A read by id, as of a payment, has no such lag.
LIST_LAG: Final = timedelta(minutes=5)
# How long a key is used where the provider documents no window, as for Braintree's SDK. A repeat
# waits until a lookup proves absence in any case; the key also covers a request that arrives later.
UNDOCUMENTED_KEY_TTL: Final = timedelta(days=1)
# Requests until a refund is sent: the charge is read, and a key that is not allowed is left out.
MAX_SEND_CALLS: Final = 3


@dataclass(frozen=True)
class RefundRequest:
    """The shop's permission to refund. A producer cannot write it."""

    money: Money
    requested_by: str
    requested_at: datetime


@dataclass(frozen=True)
class RefundFacts:
    """The refund that the request and the order describe."""

    refund: Refund
    provider: str
    requested_by: str


class PaymentRefund(Job[RefundFacts]):
    """The order's customer gets the amount of the refund request back, at most once."""

    key = ("order_id", "refund_id")
    key_prefix = "order_"
    provider = PAYMENT_PROVIDERS
    queue = "payments"
    reads = (ORDERS, REFUND_REQUESTS, REFUNDS)
    writes = (REFUNDS,)
    lookup_lag = LIST_LAG
    key_ttl = UNDOCUMENTED_KEY_TTL
    grace_period = _GRACE_PERIOD
    may_fail_later = True
    returns_money = True
    proof_retention = timedelta(days=7 * 365)  # as for a charge
    data_owner = DataOwner.CUSTOMER
    example: ClassVar = {"order_id": "18452", "refund_id": "rma_7"}
    done_verb = "refunded"
    waits_for = "its refund request, or for its order to be paid"
    business_rows = "Oncely's own ledger of the charge. Order and request are not changed."
    when_finished = "the payment provider reports that this refund succeeded."
    when_failed = "the provider declines the refund, or the customer's bank does."
    review_when = (
        "when the refund request is not valid, or not in the order's currency",
        "when the order was not paid, or at a provider that is not configured",
        "when less than the amount can be refunded, including refunds made by hand",
        "when the charge is disputed, or belongs to another deployment, order or currency",
        "when the provider reports later that a finished refund failed",
        "when a request had no answer, nothing is found, and its key is no longer safe",
    )

    order_id: BusinessId
    refund_id: BusinessId
    # These only check the values of the request, which is refunded once.
    amount: Amount | None = None
    currency: Currency | None = None

    @classmethod
    def success_summary(cls, row: JobRow) -> str:
        return f"Refunded once: {amount_label(row)} ({row.provider_ref or 'reference unknown'})."

    def precheck(self) -> PrecheckResult[RefundFacts]:
        """Read the request and the order. What can be refunded is read later, by the owner."""
        named = f"refund request {self.refund_id} of order {self.order_id}"
        key = {"order_id": self.order_id, "refund_id": self.refund_id}
        row = self.tools.table(REFUND_REQUESTS.name).get(key)
        if row is None:
            return NotThereYet(waits_for=f"{named} to exist")
        request = _request(row)
        if isinstance(request, str):
            return AlreadyResolved(outcome=Anomalous(f"{named} is not valid: {request}"))
        if difference := _message_mismatch(self, request.money):
            return Mismatch(f"{difference}, but {named} has {request.money}")
        requested_at = format_time(request.requested_at)
        if request.requested_at > self.tools.clock.now() + _SHOP_CLOCK_SKEW:
            return NotThereYet(waits_for=f"the time of {named}, {requested_at}")
        order = self.tools.table("orders").get({"order_id": self.order_id})
        if order is None:
            return NotThereYet(waits_for=f"order {self.order_id} to exist")
        facts = self._facts(order, request)
        if isinstance(facts, NotThereYet):
            return facts
        if isinstance(facts, str):
            reason = f"order {self.order_id} cannot be refunded: {facts}"
            return AlreadyResolved(outcome=Anomalous(reason))
        customer_id = order.get("customer_id")
        return Proceed(
            facts=facts,
            # Every column of the request: a later change is a conflict.
            values={
                "order_id": self.order_id,
                "refund_id": self.refund_id,
                "amount": request.money.amount,
                "currency": request.money.currency,
                "requested_by": request.requested_by,
                "requested_at": requested_at,
                "charge_id": facts.refund.charge_id,
                "payment_provider": facts.provider,
            },
            provider=facts.provider,
            customer_id=customer_id if isinstance(customer_id, str) else None,
            money=request.money,
        )

    def _facts(
        self, order: Mapping[str, object], request: RefundRequest
    ) -> RefundFacts | NotThereYet[RefundFacts] | str:
        """Return the refund as facts, or why the order cannot be refunded, now or ever."""
        if order.get("status") == PAYMENT_FAILED:
            return "its payment failed, so there is nothing to refund"
        provider = order.get("payment_provider", DEFAULT_PROVIDER)
        plugins = sorted(PAYMENT_PROVIDERS.items())
        known = [name for name, plugin in plugins if self.tools.is_configured(plugin)]
        if not isinstance(provider, str) or provider not in known:
            return f"its payment_provider is {provider!r}, this deployment has {', '.join(known)}"
        currency, ours = order.get("currency"), request.money.currency
        if not isinstance(currency, str) or currency.lower() != ours:
            named = f"refund request {self.refund_id}"
            return f"its currency is {currency!r}, and {named} has {ours}"
        # Only what a payment can still change is waited for.
        if order.get("status") in (PAYMENT_PENDING, PAYMENT_PROCESSING):
            return NotThereYet(waits_for=f"order {self.order_id} to be paid")
        charge_id = order.get("charge_id")
        if not isinstance(charge_id, str) or not charge_id:
            return "it has no charge_id"
        refund = Refund(
            charge_id=charge_id,
            money=request.money,
            job_key=self.job_key(),
            order_id=self.order_id,
            refund_id=self.refund_id,
        )
        return RefundFacts(refund, provider, request.requested_by)

    @property
    def _client(self) -> PaymentProvider:
        return self.tools.provider(PAYMENT_PROVIDERS[self.provider_name or DEFAULT_PROVIDER])

    def key_scope(self) -> str:
        return self._client.key_scope() if self.provider_name else ""

    def prepare(self, call: Call[RefundFacts]) -> Prepared | Reserved | EffectOutcome | None:
        """Reserve the amount, within what the provider says can be refunded now.

        Whose charge it is, its currency and its disputes are checked before every send. An amount
        that an earlier run reserved is not checked again: it may be refunded by now.
        """
        refund = _refund(call)
        ledger = self._ledger(refund)
        state = ledger.states.get(refund.job_key)
        if state == RefundState.DONE:
            return Anomalous(f"our ledger of {refund.charge_id} has this refund as done")
        charge = self._client.read_charge(refund.charge_id)
        if isinstance(charge, NotFound):
            return Anomalous(charge.reason)
        if isinstance(charge, NotSent):
            return charge
        if objection := charge_objection(refund, charge):
            return objection
        if state == RefundState.RESERVED:
            # A restore may have lost the job that sent it, and the key's window may be over.
            earlier = self._client.lookup_refund(refund)
            if isinstance(earlier, LookupFailed):
                return NotSent(earlier.reason, retry_after=earlier.retry_after)
            return None if isinstance(earlier, NotFound) else earlier
        reason = f"reserved {refund.money} of {refund.charge_id}, requested by "
        reserved = Reserved(reason + call.facts.requested_by, (ledger.reserve(refund),))
        return ledger.objection_to(refund, charge) or reserved

    def execute(self, call: Call[RefundFacts]) -> EffectOutcome:
        """Refund what is reserved. A forged row may have skipped `prepare`."""
        refund = _refund(call)
        if self._ledger(refund).states.get(refund.job_key) != RefundState.RESERVED:
            return Anomalous(f"no amount of {refund.charge_id} is reserved for this refund")
        if call.row.provider_ref is not None:
            return Anomalous(f"its row names {call.row.provider_ref} before a refund was made")
        # This worker may have stalled while it read the ledger, and another may own the job now.
        if not call.has_time_for(MAX_SEND_CALLS * self.policy.profile.request_timeout):
            return NotSent("not enough time was left to send it", retry_after=timedelta())
        outcome = self._client.refund(refund, idempotency_key=call.idempotency_key("refund"))
        now = self.tools.clock.now()
        if isinstance(outcome, NotSent) and now - call.row.began_at(now) > _GRACE_PERIOD:
            return Anomalous(f"it waited {_GRACE_PERIOD.days} days: {outcome.reason}")
        return outcome

    def lookup(self, call: Call[RefundFacts]) -> LookupOutcome:
        return self._client.lookup_refund(_refund(call))

    def on_success(self, call: Call[RefundFacts]) -> tuple[BusinessWrite, ...]:
        return (end_entry(call.facts.refund, RefundState.DONE),)

    def on_failure(self, call: Call[RefundFacts]) -> tuple[BusinessWrite, ...]:
        """Free the amount: it can be refunded again, under another refund id."""
        return (end_entry(call.facts.refund, RefundState.FAILED),)

    def on_cancel(self, call: Call[RefundFacts]) -> tuple[BusinessWrite, ...]:
        """Free the amount, if an earlier run reserved it."""
        return self.on_failure(call) if call.row.was_claimed else ()

    def _ledger(self, refund: Refund) -> RefundLedger:
        row = self.tools.table(REFUNDS.name).get({"charge_id": refund.charge_id})
        return RefundLedger.from_row(refund.charge_id, row)


def _refund(call: Call[RefundFacts]) -> Refund:
    return replace(call.facts.refund, deployment=call.row.deployment)


def _request(row: Mapping[str, object]) -> RefundRequest | str:
    """Return the request, or why it is not valid."""
    requested_by = row.get("requested_by")
    if not isinstance(requested_by, str) or not requested_by:
        return "requested_by is missing"
    try:
        requested_at = parse_time(row.get("requested_at"))
    except ValueError as error:
        return f"requested_at: {error}"
    try:
        money = Money.parse(row.get("amount"), row.get("currency"))
    except InvalidInputError as error:
        return str(error)
    return RefundRequest(money, requested_by, requested_at)


def _message_mismatch(refund: PaymentRefund, money: Money) -> str | None:
    if refund.amount not in {None, money.amount}:
        return f"the message has amount {refund.amount}"
    if refund.currency not in {None, money.currency}:
        return f"the message has currency {refund.currency}"
    return None
