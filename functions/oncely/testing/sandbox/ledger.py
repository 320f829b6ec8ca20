"""The ledger: every request, and what really happened at the providers."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from oncely.providers.hubspot.sandbox.records import Contact
from oncely.providers.ses.sandbox.records import SentEmail
from oncely.testing.sandbox.http_messages import SandboxRequest


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


@dataclass(frozen=True)
class RecordedRequest:
    """A received request, whatever its outcome."""

    method: str
    path: str
    idempotency_key: str | None
    params: Mapping[str, Any]
    at: datetime
    request_id: str
    fault: str | None


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


LedgerEntry = PaymentIntent | Charge | Refund | Contact | SentEmail


class Ledger:
    """A thread-safe record. A read followed by a write must hold `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._requests: list[RecordedRequest] = []
        self._intents: dict[str, list[tuple[datetime, PaymentIntent]]] = {}
        self._charges: dict[str, Charge] = {}
        self._refunds: list[Refund] = []
        self._contacts: dict[str, Contact] = {}
        self._mails: list[SentEmail] = []

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """All requests to providers, in order."""
        with self.lock:
            return tuple(self._requests)

    @property
    def paths(self) -> Counter[str]:
        """The number of requests by method and path, such as `GET /v1/refunds`."""
        return Counter(f"{one.method} {one.path}" for one in self.requests)

    @property
    def intents(self) -> tuple[PaymentIntent, ...]:
        """All current PaymentIntents, oldest first."""
        with self.lock:
            return tuple(versions[-1][1] for versions in self._intents.values())

    @property
    def attempts(self) -> tuple[Charge, ...]:
        """All charges, including declined and pending ones."""
        with self.lock:
            return tuple(self._charges.values())

    @property
    def charges(self) -> tuple[Charge, ...]:
        """The charges that moved money."""
        return tuple(one for one in self.attempts if one.status is ChargeStatus.SUCCEEDED)

    @property
    def refunds(self) -> tuple[Refund, ...]:
        """All refunds."""
        with self.lock:
            return tuple(self._refunds)

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """All current contacts, including archived ones."""
        with self.lock:
            return tuple(self._contacts.values())

    @property
    def mails(self) -> tuple[SentEmail, ...]:
        """All sent emails, in order."""
        with self.lock:
            return tuple(self._mails)

    def charges_for(self, reference: str) -> tuple[Charge, ...]:
        """The charges that moved money for a job key or order id in their metadata."""
        return tuple(
            charge
            for charge in self.charges
            if reference in {charge.metadata.get("job_key"), charge.metadata.get("order_id")}
        )

    def record(self, request: SandboxRequest, *, fault: str | None) -> None:
        """Record a received request."""
        entry = RecordedRequest(
            method=request.method,
            path=request.path,
            idempotency_key=request.idempotency_key,
            params=request.params,
            at=request.at,
            request_id=request.request_id,
            fault=fault,
        )
        with self.lock:
            self._requests.append(entry)

    def intent(self, intent_id: str) -> PaymentIntent | None:
        """Find a current PaymentIntent."""
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
        """Find a charge of any status."""
        with self.lock:
            return self._charges.get(charge_id) if charge_id else None

    def contact(self, contact_id: str) -> Contact | None:
        """Find a current contact."""
        with self.lock:
            return self._contacts.get(contact_id)

    def save(self, *changes: LedgerEntry, at: datetime) -> None:
        """Write all changes atomically."""
        with self.lock:
            for change in changes:
                match change:
                    case PaymentIntent():
                        self._intents.setdefault(change.intent_id, []).append((at, change))
                    case Charge():
                        self._charges[change.charge_id] = change
                    case Refund():
                        self._refunds.append(change)
                    case Contact():
                        self._contacts[change.contact_id] = change
                    case SentEmail():
                        self._mails.append(change)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the ledger."""
        with self.lock:
            return {
                "requests": [asdict(one) for one in self.requests],
                "paths": dict(self.paths),
                "intents": [asdict(one) for one in self.intents],
                "attempts": [asdict(one) for one in self.attempts],
                "charges": [asdict(one) for one in self.charges],
                "refunds": [asdict(one) for one in self.refunds],
                "contacts": [asdict(one) for one in self.contacts],
                "mails": [asdict(one) for one in self.mails],
            }
