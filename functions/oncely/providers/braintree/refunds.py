"""Refunds at Braintree: a void until the sale is settled, then one call with our key."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    Json,
    LookupFailed,
    NotFound,
    NotSent,
    Pending,
    ProviderState,
    StillOpen,
    Succeeded,
    after_send,
)
from oncely.core.keys import IdempotencyKey
from oncely.core.money import Money
from oncely.providers.braintree.request_keys import (
    FAILED_BEFORE,
    error_codes,
    proves_nothing,
    send_with_key,
    void,
)
from oncely.providers.braintree.responses import (
    REQUEST_ERRORS,
    Transaction,
    closed_outcome,
    currency_of,
    describe_error,
    describe_rejection,
    has_settled,
    is_charged,
    is_open,
    is_unknown_id,
    not_sent_outcome,
    order_id_of,
)
from oncely.providers.braintree.sdk import TransactionErrors, TransactionSearch
from oncely.providers.interfaces import VOIDED, ChargeState, Refund

# A sale is settled within days. A wait this long is the row's, not the queue's.
SETTLEMENT_WAIT: Final = timedelta(hours=2)
# Only a refund gives these back. Whatever else took money is voided.
_SETTLED: Final = frozenset({"settling", "settled", "settlement_confirmed"})
# The sale is on its way to being settled, or just was: a later request takes the other way.
_NOT_NOW: Final = frozenset(
    {
        TransactionErrors.CannotBeVoided,
        TransactionErrors.CannotRefundSettlingTransaction,
        TransactionErrors.CannotRefundUnlessSettled,
    }
)
# The order in the job key of a charge, which its order id holds.
_ORDER: Final = re.compile(r"[a-z0-9_.]+:order_([^:]+)(:\d+)?")


@dataclass(frozen=True, kw_only=True)
class BraintreeRefunds:
    """Refunds of sales, each found again by the job key and deployment in its order id."""

    gateway: Any  # the SDK has no types

    def read_charge(self, charge_id: str) -> ChargeState | NotFound | NotSent:
        """Read what a sale took, and what was given back, by us or by hand."""
        try:
            sale = self.gateway.transaction.find(charge_id)
            if sale.type != "sale" or not (_can_return(sale) or sale.status == VOIDED):
                return NotFound(f"{charge_id}, a {sale.type}, took no money: it is {sale.status}")
            return self._state(sale)
        except REQUEST_ERRORS as error:
            reason = f"reading {charge_id} failed: {describe_error(error)}"
            if is_unknown_id(error):
                return NotFound(reason)
            return not_sent_outcome(error) or NotSent(reason)

    def refund(self, refund: Refund, *, idempotency_key: IdempotencyKey) -> EffectOutcome:
        """Void the sale, or refund it. After an error, what Braintree lists is the outcome."""
        name, owner = refund.charge_id, (refund.deployment, refund.job_key)
        try:
            sale = self.gateway.transaction.find(name)
        except REQUEST_ERRORS as error:
            reason = f"reading {name} before its refund: {describe_error(error)}"
            return not_sent_outcome(error) or NotSent(reason)
        if sale.status in _SETTLED:
            fields = {"amount": refund.money.decimal_text, "order_id": order_id_of(*owner)}
            send = partial(
                send_with_key,
                lambda key: self.gateway.transaction.refund(name, {**fields, **key}),
                idempotency_key,
            )
        elif not _can_return(sale):
            outcome = self.lookup_refund(refund)
            status = f"{name} is {sale.status}, so it gives nothing back"
            return Anomalous(status) if isinstance(outcome, NotFound) else after_send(outcome)
        elif _is_all_of(refund, sale):
            send = partial(
                void, self.gateway, name, job_key=refund.job_key, deployment=refund.deployment
            )
        else:
            reason = f"waits for {name} to be settled: until then Braintree can only void all of it"
            return NotSent(reason, retry_after=SETTLEMENT_WAIT)
        try:
            result = send()
        except REQUEST_ERRORS as error:
            return not_sent_outcome(error) or self._refund_after_error(
                describe_error(error), refund
            )
        if result is None:
            return self._refund_after_error("the response is malformed", refund)
        if not result.is_success:
            return self._refund_after_rejection(result, refund)
        return after_send(_outcome(result.transaction, refund))

    def lookup_refund(self, refund: Refund) -> ProviderState | NotFound | LookupFailed:
        """Read the sale with its refunds, and search for ours, which the sale may not list yet."""
        try:
            sale = self.gateway.transaction.find(refund.charge_id)
            ours = {one.id: one for one in self._ours(sale, refund)}
        except REQUEST_ERRORS as error:
            reason = f"reading the refunds of {refund.charge_id} failed: {describe_error(error)}"
            return LookupFailed(reason, unknown_reference=is_unknown_id(error))
        if not ours and sale.status == VOIDED:
            return _outcome(sale, refund)
        outcomes = [_outcome(one, refund) for one in ours.values()]
        match [one for one in outcomes if not isinstance(one, Declined)] or outcomes[-1:]:
            case []:
                return NotFound(f"{refund.charge_id} has no refund of this job")
            case [one]:
                return one
            case _:
                return Anomalous(
                    f"{refund.charge_id} has several refunds of this job: {', '.join(ours)}"
                )

    def _ours(self, sale: Transaction, refund: Refund) -> Iterator[Transaction]:
        order_id = order_id_of(refund.deployment, refund.job_key)
        found = self.gateway.transaction.search(
            TransactionSearch.order_id == order_id, TransactionSearch.type == "credit"
        )
        for one in (*self._refunds(sale), *found.items):
            if getattr(one, "order_id", None) == order_id and one.type == "credit":
                yield one

    def _refunds(self, sale: Transaction) -> list[Transaction]:
        ids = getattr(sale, "refund_ids", None) or ()
        return [self.gateway.transaction.find(one) for one in ids]

    def _state(self, sale: Transaction) -> ChargeState:
        captured = _money(sale)
        # One that is not decided yet may give its amount back.
        made = [one for one in self._refunds(sale) if is_charged(one) or is_open(one)]
        returned = sum(_money(one).amount for one in made)
        deployment, order_id = _owner(sale)
        return ChargeState(
            captured=captured,
            refunded=captured.amount if sale.status == VOIDED else returned,
            disputed=bool(getattr(sale, "disputes", None)),
            order_id=order_id,
            deployment=deployment,
        )

    def _refund_after_error(self, text: str, refund: Refund) -> EffectOutcome:
        match self.lookup_refund(refund):
            case NotFound() | LookupFailed():
                return Ambiguous(f"refunding {refund.charge_id}: {text}")
            case outcome:
                return outcome

    def _refund_after_rejection(self, result: Any, refund: Refund) -> EffectOutcome:  # noqa: ANN401  # the SDK's ErrorResult
        codes, text = set(error_codes(result)), describe_rejection(result)
        reason = f"refunding {refund.charge_id}: {text}"
        match self.lookup_refund(refund):
            case NotFound() | LookupFailed() if proves_nothing(result):
                return Ambiguous(reason, replayed=FAILED_BEFORE in codes)
            case NotFound() if getattr(result.transaction, "type", None) == "credit":
                return after_send(
                    _outcome(result.transaction, refund)
                )  # declined, and not listed yet
            case NotFound() if codes & _NOT_NOW:
                return NotSent(reason, retry_after=SETTLEMENT_WAIT)
            case NotFound():
                # "Already refunded" may mean an earlier request of ours, so it is no decline.
                return Anomalous(f"Braintree rejects the refund: {text}")
            case LookupFailed():
                return Ambiguous(reason)
            case outcome:
                return outcome


def _can_return(sale: Transaction) -> bool:
    return is_charged(sale) or is_open(sale)


def _is_all_of(refund: Refund, sale: Transaction) -> bool:
    untouched = not getattr(sale, "refund_ids", None)
    return untouched and sale.amount == Decimal(refund.money.decimal_text)


def _outcome(made: Transaction, refund: Refund) -> ProviderState | LookupFailed:
    """The outcome of a refund, or of the void of its sale."""
    is_void = made.id == refund.charge_id
    result: dict[str, Json] = {
        "refund": made.id,
        "charge_id": refund.charge_id,
        "amount": refund.money.amount,
        "currency": refund.money.currency,
        **({"voided": True} if is_void else {}),
    }
    compared = {
        "sale": (made.id if is_void else made.refunded_transaction_id, refund.charge_id),
        "amount": (made.amount, Decimal(refund.money.decimal_text)),
        "currency": (currency_of(made), refund.money.currency),
    }
    for name, (theirs, ours) in compared.items():
        if theirs != ours:
            reason = f"{made.id} is not this job's refund: its {name} is {theirs}, not {ours}"
            return Anomalous(reason, made.id, result)
    if is_void and made.status == VOIDED:
        return Succeeded(f"voided {made.id} before it settled", made.id, result)
    if has_settled(made) and not is_void:
        return Succeeded(f"refunded {refund.money} as {made.id}", made.id, result)
    match closed_outcome(made):
        case Declined() | Pending() | Anomalous() as outcome:
            return outcome
        case StillOpen(reason=reason):
            return Pending(reason)
        case Succeeded(reason=reason):
            return LookupFailed(reason)  # not gone, and not settled: read it again


def _money(transaction: Transaction) -> Money:
    return Money.from_decimal(Decimal(transaction.amount), currency_of(transaction) or "")


def _owner(sale: Transaction) -> tuple[str | None, str | None]:
    """The deployment and the order of a sale. One that Oncely did not make names only an order.

    The order of a job key that was too long for an order id is its digest, which matches none.
    """
    text = getattr(sale, "order_id", None)
    deployment, separator, label = str(text or "").partition(":")
    if not separator or not re.match(r"[a-z0-9_.]+:", label):
        return None, text
    order = _ORDER.fullmatch(label)
    return deployment or None, unquote(order[1]) if order else label
