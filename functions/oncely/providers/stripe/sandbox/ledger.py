"""Stripe's part of the ledger: intents, charges, refunds and disputes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

from oncely.testing.sandbox.http_messages import NowFunction
from oncely.testing.sandbox.ledger import EffectState, ProviderLedger, RecordedEffect


class IntentStatus(StrEnum):
    """The status of a PaymentIntent, in Stripe's terms."""

    REQUIRES_PAYMENT_METHOD = "requires_payment_method"
    REQUIRES_CONFIRMATION = "requires_confirmation"
    REQUIRES_ACTION = "requires_action"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    CANCELED = "canceled"


class ChargeStatus(StrEnum):
    """The status of a charge. Only `succeeded` moves money."""

    SUCCEEDED = "succeeded"
    PENDING = "pending"
    FAILED = "failed"


# Payment methods that stay processing until `complete_pending`, with their type.
PROCESSING_METHODS: Final = {"pm_processing": "us_bank_account", "pm_sepa": "sepa_debit"}

_EFFECT_STATES: Final = {
    ChargeStatus.SUCCEEDED: EffectState.DONE,
    ChargeStatus.PENDING: EffectState.PENDING,
    ChargeStatus.FAILED: EffectState.DECLINED,
}

_REFUND_STATES: Final = {
    "succeeded": EffectState.DONE,
    "pending": EffectState.PENDING,
    "failed": EffectState.DECLINED,
}


@dataclass(frozen=True, kw_only=True)
class PaymentIntent:
    """A payment. Each change creates a new version."""

    intent_id: str
    amount: int
    currency: str
    created: datetime
    status: IntentStatus
    customer: str | None = None
    payment_method: str | None = None
    description: str | None = None
    receipt_email: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    redirects_allowed: bool = True
    latest_charge: str | None = None
    last_payment_error: Mapping[str, Any] | None = None
    canceled_at: datetime | None = None
    cancellation_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One attempt to charge the customer."""

    charge_id: str
    intent_id: str
    amount: int
    currency: str
    created: datetime
    status: ChargeStatus
    customer: str | None
    payment_method: str
    metadata: Mapping[str, str]
    idempotency_key: str | None
    failure_code: str | None = None
    amount_refunded: int = 0
    disputed: bool = False

    @property
    def object_id(self) -> str:
        return self.charge_id


@dataclass(frozen=True, kw_only=True)
class RecordedRefund:
    """A refund of a charge."""

    refund_id: str
    charge_id: str
    intent_id: str
    amount: int
    currency: str
    created: datetime
    metadata: Mapping[str, str]
    status: str = "succeeded"  # or pending, or failed: then the charge has its amount again

    @property
    def object_id(self) -> str:
        return self.refund_id


@dataclass(frozen=True, kw_only=True)
class Dispute:
    """A dispute of a charge, opened by the customer's bank."""

    dispute_id: str
    charge_id: str
    intent_id: str
    amount: int
    currency: str
    created: datetime
    status: str = "needs_response"

    @property
    def object_id(self) -> str:
        return self.dispute_id


SandboxEntry: TypeAlias = PaymentIntent | Charge | RecordedRefund | Dispute


class StripeLedger(ProviderLedger):
    """What happened at Stripe."""

    def __init__(self, clock: NowFunction) -> None:
        super().__init__()
        self.on_change: Callable[[SandboxEntry | None, SandboxEntry], None] = lambda _, __: None
        self._clock = clock
        # The versions of each intent and when they were saved, for reads that lag.
        self._versions: dict[str, list[tuple[datetime, PaymentIntent]]] = {}
        self._intents: dict[str, PaymentIntent] = {}
        self._charges: dict[str, Charge] = {}
        self._refunds: dict[str, RecordedRefund] = {}
        self._disputes: list[Dispute] = []
        self.emails: dict[str, str] = {}  # of customers

    @property
    def intents(self) -> tuple[PaymentIntent, ...]:
        with self.lock:
            return tuple(self._intents.values())

    @property
    def attempts(self) -> tuple[Charge, ...]:
        """All charges, including declined and pending ones."""
        with self.lock:
            return tuple(self._charges.values())

    @property
    def charges(self) -> tuple[Charge, ...]:
        return tuple(one for one in self.attempts if one.status is ChargeStatus.SUCCEEDED)

    @property
    def refunds(self) -> tuple[RecordedRefund, ...]:
        with self.lock:
            return tuple(self._refunds.values())

    @property
    def disputes(self) -> tuple[Dispute, ...]:
        with self.lock:
            return tuple(self._disputes)

    def charges_for(self, reference: str) -> tuple[Charge, ...]:
        """The charges that moved money for a job key or order id in their metadata."""
        return tuple(
            charge
            for charge in self.charges
            if reference in {charge.metadata.get("job_key"), charge.metadata.get("order_id")}
        )

    def intent(self, intent_id: str) -> PaymentIntent | None:
        with self.lock:
            return self._intents.get(intent_id)

    def intent_at(self, intent_id: str, moment: datetime) -> PaymentIntent | None:
        """The intent as it was then. Returns None if there was none yet."""
        with self.lock:
            versions = self._versions.get(intent_id, ())
            return next((one for at, one in reversed(versions) if at <= moment), None)

    def refund(self, refund_id: str) -> RecordedRefund | None:
        with self.lock:
            return self._refunds.get(refund_id)

    def dispute(self, dispute_id: str) -> Dispute | None:
        return next((one for one in self.disputes if one.dispute_id == dispute_id), None)

    def refunds_of(self, charge_id: str) -> tuple[RecordedRefund, ...]:
        return tuple(one for one in self.refunds if one.charge_id == charge_id)

    def charge(self, charge_id: str | None) -> Charge | None:
        with self.lock:
            return self._charges.get(charge_id) if charge_id else None

    def save(self, *entries: SandboxEntry) -> None:
        with self.lock:
            for entry in entries:
                self.on_change(self._replace(entry), entry)

    def _replace(self, entry: SandboxEntry) -> SandboxEntry | None:
        """Store an entry. Returns the one before."""
        before: SandboxEntry | None = None
        match entry:
            case PaymentIntent():
                before = self._intents.get(entry.intent_id)
                self._intents[entry.intent_id] = entry
                versions = self._versions.setdefault(entry.intent_id, [])
                versions.append((self._clock(), entry))
            case Charge():
                before = self._charges.get(entry.charge_id)
                self._charges[entry.charge_id] = entry
            case RecordedRefund():
                before = self._refunds.get(entry.refund_id)
                self._refunds[entry.refund_id] = entry
            case Dispute():
                self._disputes.append(entry)
        return before

    def effects(self) -> Iterator[RecordedEffect]:
        for one in self.attempts:
            yield RecordedEffect(
                kind="charges",
                key=one.metadata.get("job_key", ""),
                reference=one.charge_id,
                state=_EFFECT_STATES[one.status],
                amount=one.amount,
                currency=one.currency,
            )
        for refund in self.refunds:
            # A refund made by hand belongs to no job.
            if key := refund.metadata.get("job_key"):
                yield RecordedEffect(
                    kind="refunds",
                    key=key,
                    reference=refund.refund_id,
                    state=_REFUND_STATES[refund.status],
                    amount=refund.amount,
                    currency=refund.currency,
                )
