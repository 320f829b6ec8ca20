"""The providers outside, as the jobs that ship see them: payments, a CRM and mail."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from oncely.domain.effect_outcomes import (
    Anomalous,
    EffectOutcome,
    Json,
    LookupFailed,
    NotSent,
    Prepared,
)
from oncely.domain.keys import IdempotencyKey, JobKey
from oncely.domain.money import Money

# The version of our record that a contact holds.
VERSION_PROPERTY: Final = "oncely_version"
# Proves that an existing contact is the same person.
EMAIL_PROPERTY: Final = "email"


@dataclass(frozen=True, kw_only=True)
class Payment:
    """What to charge, and for what."""

    money: Money
    customer: str
    method: str
    job_key: JobKey
    order_id: str
    deployment: str | None = None  # of the job's row


class PaymentProvider(Protocol):
    """Moves money once per prepared payment, however often it is asked."""

    def key_scope(self) -> str:
        """Within what our keys are unique; it differs when the account does."""

    def prepare(
        self, payment: Payment, *, idempotency_key: IdempotencyKey
    ) -> Prepared | EffectOutcome:
        """Make a payment that has moved nothing yet."""

    def execute(
        self, ref: str, payment: Payment, *, idempotency_key: IdempotencyKey, verified: bool = False
    ) -> EffectOutcome:
        """Move the money of a prepared payment; unless `verified`, see first that it is ours."""

    def lookup(self, ref: str, payment: Payment) -> EffectOutcome:
        """Tell what became of a prepared payment; changes nothing."""

    def find(self, payment: Payment) -> Prepared | EffectOutcome:
        """Find this job's payment without its reference; one that moved money comes first.

        `NotFound` says that there is none. Changes nothing.
        """

    def close(self, ref: str, payment: Payment, *, verified: bool = False) -> EffectOutcome:
        """Make sure that a prepared payment never moves money; `Declined` says that it cannot."""

    def lookup_closed(
        self, ref: str, *, job_key: JobKey, deployment: str | None = None
    ) -> EffectOutcome:
        """Tell whether a prepared payment can still move money for this job; changes nothing."""


@dataclass(frozen=True, kw_only=True)
class CrmRecord:
    """A record of the CRM, as its API returns it."""

    record_id: str  # the CRM's own id
    updated_at: datetime
    archived: bool
    body: Mapping[str, Json]  # the whole object: id, properties, createdAt, updatedAt, archived
    external_id: str | None = None  # our id on it; only `find` reads that


@dataclass(frozen=True)
class RecordNotFound:
    """The CRM has no such record, or has none any more."""


@dataclass(frozen=True)
class CrmConflict:
    """Nothing was written: another record of the CRM has a value that must be unique."""

    reason: str
    record_id: str | None = None  # which record, if the CRM says so
    properties: frozenset[str] = frozenset()  # the properties that collided, if the CRM says so


@dataclass(frozen=True)
class CrmPage:
    """Some records in a stable order; `after` goes on behind them, None: that was the last."""

    records: tuple[CrmRecord, ...]
    after: str | None


class Crm(Protocol):
    """The CRM that contacts come from and go to; one request a call, no retries inside."""

    def get_contact(self, record_id: str) -> CrmRecord | RecordNotFound | NotSent:
        """Read a contact by its id, with all its properties; failing to read changes nothing."""

    def list_contacts(self, *, after: str | None) -> CrmPage | NotSent:
        """List contacts, a hundred at a time."""

    def list_changed(self, *, since: datetime, after: str | None) -> CrmPage | NotSent:
        """List contacts that changed since then, by id, without an end at 10,000."""

    def upsert_contact(
        self, external_id: str, properties: Mapping[str, str], *, crm_id: str | None = None
    ) -> EffectOutcome | CrmConflict | RecordNotFound:
        """Create or update the one contact with our unique external id, or with this CRM id.

        Gone: there is no contact with this CRM id, so nothing was written.
        """

    def find_by_external_id(
        self, external_id: str, *, crm_id: str | None = None
    ) -> CrmRecord | RecordNotFound | LookupFailed | Anomalous:
        """Read the contact that carries our external id, or the one with this CRM id.

        Odd: the CRM cannot be asked for such an id, so nothing was sent.
        """


@dataclass(frozen=True, kw_only=True)
class Email:
    """One e-mail."""

    to: str
    subject: str
    text: str


class Mailer(Protocol):
    """Sends e-mail; what it may have sent can never be asked for."""

    def send(self, email: Email, *, idempotency_key: IdempotencyKey, tag: str) -> EffectOutcome:
        """Send once, whatever happens on the way; the message id is the reference."""
