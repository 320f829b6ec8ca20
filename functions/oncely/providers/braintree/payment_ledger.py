"""Braintree's own list of sales, refunds and disputes, with the job in their order id."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from oncely.core.effect_outcomes import LookupFailed
from oncely.core.money import Money
from oncely.core.text import format_time, parse_time
from oncely.plugins.ledger import EntryKind, EntryState, LedgerEntry, LedgerPage, PaymentOwner
from oncely.providers.braintree.responses import (
    REQUEST_ERRORS,
    Transaction,
    currency_of,
    describe_error,
    has_settled,
    is_unknown_id,
    job_label,
)
from oncely.providers.braintree.sdk import DisputeSearch, NotFoundError, TransactionSearch

# A search ends at 20,000 transactions at most, and the SDK reads the whole result. A result this
# large is read in halves.
MAX_RESULT: Final = 1_000
# One page of a search.
_MAX_OWNERS: Final = 50
_ID: Final = re.compile(r"[A-Za-z0-9_-]{3,36}")
_SLICE: Final = timedelta(hours=1)
_MIN_SLICE: Final = timedelta(minutes=1)
_TYPES: Final = {EntryKind.CHARGE: "sale", EntryKind.REFUND: "credit"}
# Statuses in which a transaction has moved no money, and never will.
_FAILED: Final = frozenset(
    {"voided", "failed", "settlement_declined", "settlement_failed", "authorization_expired"}
    | {"processor_declined", "gateway_rejected"}
)


@dataclass(frozen=True)
class BraintreePaymentLedger:
    """Searches by the time of creation, some minutes at a time, the oldest first."""

    gateway: Any  # the SDK has no types

    def list_entries(
        self, kind: EntryKind, *, since: datetime, until: datetime, after: str | None
    ) -> LedgerPage | LookupFailed:
        start = since if after is None else parse_time(after)
        try:
            found, end = self._search(kind, start, until)
            entries = tuple(one for one in found if since <= one.at < until)
        except REQUEST_ERRORS as error:
            return LookupFailed(f"listing {kind}s failed: {describe_error(error)}")
        return LedgerPage(
            entries=entries, after=format_time(end) if end < until else None, reached=end
        )

    def find_charge(self, ref: str) -> LedgerEntry | LookupFailed | None:
        return self._find(EntryKind.CHARGE, ref)

    def find_refund(self, ref: str) -> LedgerEntry | LookupFailed | None:
        return self._find(EntryKind.REFUND, ref)

    def _find(self, kind: EntryKind, ref: str) -> LedgerEntry | LookupFailed | None:
        if not _ID.fullmatch(ref):
            return None
        try:
            transaction = self.gateway.transaction.find(ref)
            # A sale is refunded by a void until it settles.
            is_void = kind is EntryKind.REFUND and transaction.status == "voided"
            if is_void and transaction.type == _TYPES[EntryKind.CHARGE]:
                return replace(_entry(kind, transaction), ref=ref, state=EntryState.MOVED)
            return next(_entries(kind, [transaction]), None)
        except REQUEST_ERRORS as error:
            if is_unknown_id(error):
                return None
            return LookupFailed(f"reading {ref} failed: {describe_error(error)}")

    def find_owners(self, text: str) -> tuple[PaymentOwner, ...] | LookupFailed | None:
        try:
            if "@" in text:
                query = TransactionSearch.customer_email == text
                return self._newest_owners(query)
            if not _ID.fullmatch(text):
                return None
            return self._owner_of_object(text) or self._newest_owners(
                TransactionSearch.customer_id == text
            )
        except REQUEST_ERRORS as error:
            return LookupFailed(f"reading {text} failed: {describe_error(error)}")

    def _owner_of_object(self, text: str) -> tuple[PaymentOwner, ...]:
        """The owner of a transaction or a dispute."""
        for find in (self.gateway.transaction.find, self._disputed):
            try:
                found = find(text)
            except NotFoundError:
                continue
            ref = getattr(found, "refunded_transaction_id", None) or found.id
            deployment, label = _owner(found)
            return (PaymentOwner(deployment=deployment, job_label=label, ref=ref),)
        return ()

    def _disputed(self, dispute_id: str) -> Transaction:
        return self.gateway.dispute.find(dispute_id).transaction

    def _newest_owners(self, query: object) -> tuple[PaymentOwner, ...]:
        found = self.gateway.transaction.search(query, TransactionSearch.type == "sale")
        owners = ((one.id, *_owner(one)) for one in islice(found.items, _MAX_OWNERS))
        return tuple(
            PaymentOwner(deployment=deployment, job_label=label, ref=ref)
            for ref, deployment, label in owners
        )

    def job_label(self, job_key: str) -> str:
        return job_label(job_key)

    def _search(
        self, kind: EntryKind, start: datetime, until: datetime
    ) -> tuple[Iterator[LedgerEntry], datetime]:
        """Search a slice of time that is not too large. Returns where the next one starts."""
        if kind is EntryKind.DISPUTE:
            return self._disputes(start, until), until
        length = _SLICE
        while True:
            end = min(start + length, until)
            # Both ends are included, so an entry may repeat.
            found = self.gateway.transaction.search(
                TransactionSearch.created_at.between(start, end),
                TransactionSearch.type == _TYPES[kind],
            )
            if found.maximum_size <= MAX_RESULT or length <= _MIN_SLICE:
                return _entries(kind, found.items), end
            length /= 2

    def _disputes(self, since: datetime, until: datetime) -> Iterator[LedgerEntry]:
        # Braintree's dispute search supports only whole days.
        first, last = (since - timedelta(days=1)).date(), until.date()
        found = self.gateway.dispute.search(DisputeSearch.received_date.between(first, last))
        return (_dispute_entry(one) for one in found.disputes.items)


def _entries(kind: EntryKind, transactions: Iterable[Transaction]) -> Iterator[LedgerEntry]:
    for one in transactions:
        if one.type == _TYPES[kind] and (has_settled(one) or one.status in _FAILED):
            yield _entry(kind, one)


def _entry(kind: EntryKind, one: Transaction) -> LedgerEntry:
    deployment, label = _owner(one)
    # A refund has its own id; the row has that of the sale.
    sale = one.id if kind is EntryKind.CHARGE else getattr(one, "refunded_transaction_id", None)
    return LedgerEntry(
        kind=kind,
        entry_id=one.id,
        ref=sale,
        money=Money.from_decimal(Decimal(one.amount), currency_of(one) or ""),
        at=_utc(one.created_at),
        state=EntryState.FAILED if one.status in _FAILED else EntryState.MOVED,
        deployment=deployment,
        job_label=label,
    )


def _dispute_entry(one: Any) -> LedgerEntry:  # noqa: ANN401  # the SDK has no types
    transaction = one.transaction
    deployment, label = _owner(transaction)
    currency = str(one.currency_iso_code).lower()
    return LedgerEntry(
        kind=EntryKind.DISPUTE,
        entry_id=one.id,
        ref=transaction.id,
        money=Money.from_decimal(Decimal(one.amount_disputed), currency),
        at=_utc(one.created_at),
        deployment=deployment,
        job_label=label,
    )


def _owner(transaction: Transaction) -> tuple[str | None, str | None]:
    """The deployment and the job in an order id, which another application may have written."""
    deployment, _, label = str(getattr(transaction, "order_id", None) or "").partition(":")
    return deployment or None, label or None


def _utc(at: datetime) -> datetime:
    # The SDK parses Braintree's times, which are UTC, without a zone.
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
