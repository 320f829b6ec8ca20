"""The providers as the shipped jobs see them: payments, a CRM and email."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from oncely.core.effect_outcomes import (
    EffectOutcome,
    Json,
    LookupFailed,
    LookupOutcome,
    NotFound,
    NotSent,
    Prepared,
    ProviderState,
)
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.money import Money
from oncely.plugins.ledger import PaymentLedger

# Proves that an existing contact is this record's.
EMAIL_PROPERTY: Final = "email"
# The code of a decline: a payment that was taken back before it settled.
VOIDED: Final = "voided"


@dataclass(frozen=True, kw_only=True)
class Payment:
    """A payment to charge, and what it is for."""

    money: Money
    customer: str
    method: str
    job_key: JobKey
    order_id: str
    deployment: str | None = None  # the identity in the job's row


@dataclass(frozen=True, kw_only=True)
class ChargeState:
    """A charge as the provider has it now, with the refunds that others made by hand."""

    captured: Money
    refunded: int  # in minor units
    disputed: bool = False
    # Whose charge it is, if its metadata says so. One that was made before Oncely has none.
    order_id: str | None = None
    deployment: str | None = None


@dataclass(frozen=True, kw_only=True)
class Refund:
    """A refund to make, and what it is for."""

    charge_id: str
    money: Money
    job_key: JobKey
    order_id: str
    refund_id: str  # the producer's
    deployment: str | None = None  # the identity in the job's row


def absent_refund(
    refund: Refund, charge: ChargeState | NotFound | NotSent, *, listed: int
) -> NotFound | LookupFailed:
    """Return what a list without this job's refund proves.

    It proves nothing while the charge itself counts more than the `listed` amount: the list lags
    behind the charge, and what it lacks may be our refund.
    """
    match charge:
        case ChargeState(refunded=refunded) if refunded > listed:
            of_charge, of_list = (Money(one, refund.money.currency) for one in (refunded, listed))
            return LookupFailed(
                f"{of_charge} of {refund.charge_id} was refunded, but its list shows {of_list}"
            )
        case ChargeState():
            return NotFound(f"{refund.charge_id} has no refund of this job")
        case unread:
            return LookupFailed(unread.reason)


class PaymentProvider(Protocol):
    """A provider that moves money at most once per prepared payment, and gives it back once.

    A refund is one call, which the provider deduplicates by our key.
    """

    @property
    def ledger(self) -> PaymentLedger:
        """The provider's own list of payments, for audits and searches."""

    def key_scope(self) -> str:
        """Return the scope in which idempotency keys are unique: it changes with the account."""

    def prepare(
        self, payment: Payment, *, idempotency_key: IdempotencyKey
    ) -> Prepared | EffectOutcome:
        """Create a payment that has not moved money yet."""

    def execute(
        self, ref: str, payment: Payment, *, idempotency_key: IdempotencyKey, verified: bool = False
    ) -> EffectOutcome:
        """Move the money of a prepared payment. Unless `verified`, first check that it is ours."""

    def lookup(self, ref: str, payment: Payment) -> LookupOutcome:
        """Look up the outcome of a prepared payment. Read-only."""

    def find(self, payment: Payment) -> Prepared | LookupOutcome:
        """Find this job's payment without its reference. One that moved money comes first.

        Returns `NotFound` if there is none. Read-only.
        """

    def close(self, ref: str, payment: Payment, *, verified: bool = False) -> EffectOutcome:
        """Close a prepared payment. Returns `Declined` once it can never move money."""

    def lookup_closed(
        self, ref: str, *, job_key: JobKey, deployment: str | None = None
    ) -> LookupOutcome:
        """Look up whether a prepared payment can still move money for this job. Read-only.

        Returns `NotFound` if the reference is unknown or belongs to another job.
        """

    def read_charge(self, charge_id: str) -> ChargeState | NotFound | NotSent:
        """Read how much of a charge can be refunded. Read-only."""

    def refund(self, refund: Refund, *, idempotency_key: IdempotencyKey) -> EffectOutcome:
        """Refund, once. `Declined` only if the charge has no refund of this job."""

    def lookup_refund(self, refund: Refund) -> ProviderState | NotFound | LookupFailed:
        """Look up this job's refund among those of the charge. Read-only.

        Returns `NotFound` only as `absent_refund` does.
        """


@dataclass(frozen=True, kw_only=True)
class CrmRecord:
    """A record of the CRM, as its API returns it."""

    record_id: str  # the CRM's id
    updated_at: datetime
    archived: bool
    body: Mapping[str, Json]  # the whole object: id, properties, createdAt, updatedAt, archived
    # Our id and version of the record, by our own two properties: `find_by_external_id` reads them.
    external_id: str | None = None
    version: int = 0


@dataclass(frozen=True)
class RecordNotFound:
    """A record that the CRM does not have, or no longer has."""


@dataclass(frozen=True)
class CrmConflict:
    """A write that conflicts with a unique value of another CRM record. Nothing was written."""

    reason: str
    record_id: str | None = None  # the other record, if the CRM returns its id
    properties: frozenset[str] = frozenset()  # the properties that collide, if the CRM returns them


@dataclass(frozen=True)
class CrmPage:
    """A page of records in a stable order."""

    records: tuple[CrmRecord, ...]
    after: str | None  # the cursor of the next page; None on the last page


@dataclass(frozen=True, kw_only=True)
class Email:
    """An email."""

    to: str
    subject: str
    text: str
