"""A provider's own list of payments, and how it differs from ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from oncely.core.effect_outcomes import Json, LookupFailed
from oncely.core.money import Money
from oncely.core.text import format_time


class EntryKind(StrEnum):
    """What a provider lists. The values are stored while an audit runs."""

    CHARGE = "charge"  # took the customer's money
    REFUND = "refund"
    DISPUTE = "dispute"


class EntryState(StrEnum):
    """Whether an entry moved money. Pending ones are not listed. The values are stored."""

    MOVED = "moved"
    FAILED = "failed"  # or canceled, declined at settlement or voided: perhaps days later


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One movement of money at a provider. `deployment` and `job_label` are our metadata."""

    kind: EntryKind
    entry_id: str  # the provider's id of the charge, refund or dispute
    ref: str | None  # the id that a row saves as its provider reference
    money: Money
    at: datetime
    state: EntryState = EntryState.MOVED
    deployment: str | None = None
    job_label: str | None = None  # the job key, or its digest where the provider allows too little

    @property
    def moved_money(self) -> bool:
        """Whether it moved money, and nothing took that back as if it had never happened."""
        return self.state is EntryState.MOVED


@dataclass(frozen=True, kw_only=True)
class PaymentOwner:
    """The owner of a payment, from our metadata."""

    deployment: str | None
    job_label: str | None
    ref: str | None  # that the row may have saved


@dataclass(frozen=True, kw_only=True)
class LedgerPage:
    """Some entries of a provider. `after` continues the list; None on the last page."""

    entries: tuple[LedgerEntry, ...]
    after: str | None
    reached: datetime  # everything on one side of this time is listed, for the progress bar


class DifferenceKind(StrEnum):
    """How a provider's list and our jobs can differ. Stored in reports, so never rename them."""

    CHARGE_WITHOUT_JOB = "charge_without_job"
    CHARGE_OF_FAILED_JOB = "charge_of_failed_job"
    SEVERAL_CHARGES = "several_charges"
    JOB_WITHOUT_CHARGE = "job_without_charge"
    CHARGE_FAILED_LATER = "charge_failed_later"
    CHARGE_ID_UNKNOWN = "charge_id_unknown"
    AMOUNT_DIFFERS = "amount_differs"
    CURRENCY_DIFFERS = "currency_differs"
    REFUND_WITHOUT_JOB = "refund_without_job"
    REFUND_OF_FAILED_JOB = "refund_of_failed_job"
    SEVERAL_REFUNDS = "several_refunds"
    JOB_WITHOUT_REFUND = "job_without_refund"
    REFUND_FAILED_LATER = "refund_failed_later"
    DISPUTE = "dispute"

    @property
    def label(self) -> str:
        """The kind in a table of counts."""
        return _LABELS[self]


_LABELS: Mapping[DifferenceKind, str] = {
    DifferenceKind.CHARGE_WITHOUT_JOB: "charged without a job",
    DifferenceKind.CHARGE_OF_FAILED_JOB: "charged by a failed or cancelled job",
    DifferenceKind.SEVERAL_CHARGES: "several charges for one order",
    DifferenceKind.JOB_WITHOUT_CHARGE: "finished without a charge",
    DifferenceKind.CHARGE_FAILED_LATER: "charge failed or voided later",
    DifferenceKind.CHARGE_ID_UNKNOWN: "charge id unknown to the provider",
    DifferenceKind.AMOUNT_DIFFERS: "another amount",
    DifferenceKind.CURRENCY_DIFFERS: "another currency",
    DifferenceKind.REFUND_WITHOUT_JOB: "refunded without a job",
    DifferenceKind.REFUND_OF_FAILED_JOB: "refunded by a failed or cancelled job",
    DifferenceKind.SEVERAL_REFUNDS: "several refunds of one job",
    DifferenceKind.JOB_WITHOUT_REFUND: "finished without a refund",
    DifferenceKind.REFUND_FAILED_LATER: "refund failed later",
    DifferenceKind.DISPUTE: "disputed",
}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One difference, with what the provider lists and what our job holds.

    With a `note`, our own records explain it: the report has it, and it counts as no difference.
    """

    kind: DifferenceKind
    provider: str
    job_key: str | None = None
    subject: str | None = None  # the order
    provider_ids: tuple[str, ...] = ()
    theirs: Money | None = None
    ours: Money | None = None
    at: datetime | None = None
    note: str | None = None

    @property
    def text(self) -> str:
        """The amounts in one line: theirs, and ours where it differs."""
        ours = f", ours {self.ours}" if self.ours and self.ours != self.theirs else ""
        return f"{self.theirs}{ours}" if self.theirs else f"ours {self.ours or 'not recorded'}"

    def to_json(self) -> dict[str, Json]:
        """The difference as one line of the report. Amounts are in minor units."""
        return {
            "record": "difference" if self.note is None else "note",
            "kind": self.kind,
            "label": self.kind.label,
            "provider": self.provider,
            "job_key": self.job_key,
            "subject": self.subject,
            "provider_ids": list(self.provider_ids),
            "theirs": _money_json(self.theirs),
            "ours": _money_json(self.ours),
            "at": None if self.at is None else format_time(self.at),
            **({} if self.note is None else {"note": self.note}),
        }


@dataclass(frozen=True, kw_only=True)
class LedgerSum:
    """A number of objects, and their amounts in minor units."""

    count: int = 0
    amount: int = 0


@dataclass(frozen=True, kw_only=True)
class LedgerTotal:
    """The sums of one provider and currency."""

    provider: str
    currency: str
    charges: LedgerSum = field(default_factory=LedgerSum)  # theirs, with our metadata
    jobs: LedgerSum = field(default_factory=LedgerSum)  # ours that finished
    unresolved: LedgerSum = field(default_factory=LedgerSum)  # charges of jobs that have not ended
    refunds: LedgerSum = field(default_factory=LedgerSum)
    disputes: LedgerSum = field(default_factory=LedgerSum)
    not_ours: LedgerSum = field(default_factory=LedgerSum)  # charges of others on the account

    def to_json(self) -> dict[str, Json]:
        """The total as one line of the report."""
        names = ("charges", "jobs", "unresolved", "refunds", "disputes", "not_ours")
        sums = {name: getattr(self, name) for name in names}
        return {
            "record": "total",
            "provider": self.provider,
            "currency": self.currency,
            **{name: {"count": one.count, "amount": one.amount} for name, one in sums.items()},
        }


def _money_json(money: Money | None) -> Json:
    return None if money is None else {"amount": money.amount, "currency": money.currency}


class PaymentLedger(Protocol):
    """A payment provider's own list of what it did with money. Read-only."""

    def list_entries(
        self, kind: EntryKind, *, since: datetime, until: datetime, after: str | None
    ) -> LedgerPage | LookupFailed:
        """List the entries from `since` until before `until`, some at a time and in any order.

        Entries of other applications on the account are included. An entry may repeat.
        """

    def find_charge(self, ref: str) -> LedgerEntry | LookupFailed | None:
        """Find a charge by its id or provider reference.

        Returns None if there is none, or if it is not decided.
        """

    def find_refund(self, ref: str) -> LedgerEntry | LookupFailed | None:
        """Find a refund by its id. Returns None if there is none, or if it is not decided."""

    def find_owners(self, text: str) -> tuple[PaymentOwner, ...] | LookupFailed | None:
        """Find payments by an id of this provider or a customer's email.

        The newest come first. Returns None if the text is neither; then nothing was asked.
        """

    def job_label(self, job_key: str) -> str:
        """Return the `job_label` that entries of this job have."""


@runtime_checkable
class HasLedger(Protocol):
    """The client of a provider that takes payments."""

    @property
    def ledger(self) -> PaymentLedger: ...
    def key_scope(self) -> str: ...
