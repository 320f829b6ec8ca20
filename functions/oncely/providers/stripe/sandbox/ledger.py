"""Stripe's part of the ledger: intents, charges and refunds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from oncely.testing.sandbox.ledger import RequestLedger


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


@dataclass(frozen=True, kw_only=True)
class Refund:
    """A refund of a charge."""

    refund_id: str
    charge_id: str
    intent_id: str
    amount: int
    currency: str
    created: datetime
    metadata: Mapping[str, str]


class StripeLedger(RequestLedger):
    """What happened at Stripe."""

    def __init__(self) -> None:
        super().__init__()
        self._intents: dict[str, list[tuple[datetime, PaymentIntent]]] = {}
        self._charges: dict[str, Charge] = {}
        self._refunds: list[Refund] = []

    @property
    def intents(self) -> tuple[PaymentIntent, ...]:
        with self.lock:
            return tuple(versions[-1][1] for versions in self._intents.values())

    @property
    def attempts(self) -> tuple[Charge, ...]:
        """All charges, including declined and pending ones."""
        with self.lock:
            return tuple(self._charges.values())

    @property
    def charges(self) -> tuple[Charge, ...]:
        return tuple(one for one in self.attempts if one.status is ChargeStatus.SUCCEEDED)

    @property
    def refunds(self) -> tuple[Refund, ...]:
        with self.lock:
            return tuple(self._refunds)

    def charges_for(self, reference: str) -> tuple[Charge, ...]:
        """The charges that moved money for a job key or order id in their metadata."""
        return tuple(
            charge
            for charge in self.charges
            if reference in {charge.metadata.get("job_key"), charge.metadata.get("order_id")}
        )

    def intent(self, intent_id: str) -> PaymentIntent | None:
        with self.lock:
            versions = self._intents.get(intent_id)
            return versions[-1][1] if versions else None

    def intents_as_of(self, moment: datetime) -> tuple[PaymentIntent, ...]:
        """The PaymentIntents at an earlier time, as a lagging search index has them."""
        with self.lock:
            seen = (
                [intent for at, intent in versions if at <= moment]
                for versions in self._intents.values()
            )
            return tuple(versions[-1] for versions in seen if versions)

    def charge(self, charge_id: str | None) -> Charge | None:
        with self.lock:
            return self._charges.get(charge_id) if charge_id else None

    def _save_entry(self, entry: object, at: datetime) -> None:
        match entry:
            case PaymentIntent():
                self._intents.setdefault(entry.intent_id, []).append((at, entry))
            case Charge():
                self._charges[entry.charge_id] = entry
            case Refund():
                self._refunds.append(entry)
            case _:
                super()._save_entry(entry, at)

    def to_dict(self) -> dict[str, Any]:
        names = ("intents", "attempts", "charges", "refunds")
        with self.lock:
            lists = {name: [asdict(one) for one in getattr(self, name)] for name in names}
            return {**super().to_dict(), **lists}
