"""Braintree's part of the ledger: transactions and their outcomes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from oncely.testing.sandbox.ledger import EffectState, ProviderLedger, RecordedEffect

AUTHORIZED: Final = "authorized"
SUBMITTED: Final = "submitted_for_settlement"
PENDING: Final = "settlement_pending"
SETTLED: Final = "settled"
_STATES: Final = {
    SUBMITTED: EffectState.DONE,
    SETTLED: EffectState.DONE,
    PENDING: EffectState.PENDING,
}


@dataclass(frozen=True, kw_only=True)
class RecordedTransaction:
    """A transaction. Each change creates a new version."""

    transaction_id: str
    amount: Decimal
    currency: str
    merchant_account: str
    created: datetime
    status: str
    order_id: str
    customer: str
    token: str
    type: str = "sale"
    gateway_rejection_reason: str | None = None
    processor_code: str | None = None
    processor_text: str | None = None
    processor_type: str | None = None
    refund_ids: tuple[str, ...] = ()
    refunded_id: str | None = None
    disputes: tuple[tuple[str, datetime], ...] = ()  # ids and times


class BraintreeLedger(ProviderLedger):
    """What happened at Braintree."""

    def __init__(self) -> None:
        super().__init__()
        self._transactions: dict[str, RecordedTransaction] = {}

    @property
    def transactions(self) -> tuple[RecordedTransaction, ...]:
        with self.lock:
            return tuple(self._transactions.values())

    def transaction(self, transaction_id: str) -> RecordedTransaction | None:
        with self.lock:
            return self._transactions.get(transaction_id)

    def save(self, transaction: RecordedTransaction) -> RecordedTransaction:
        with self.lock:
            self._transactions[transaction.transaction_id] = transaction
        return transaction

    def effects(self) -> Iterator[RecordedEffect]:
        for one in self.transactions:
            if one.type != "sale" or one.status == AUTHORIZED:
                continue  # an authorization takes nothing
            yield RecordedEffect(
                kind="charges",
                key=one.order_id.partition(":")[2],
                reference=one.transaction_id,
                state=_STATES.get(one.status, EffectState.DECLINED),
                amount=int(one.amount.scaleb(2)),
                currency=one.currency,
            )
