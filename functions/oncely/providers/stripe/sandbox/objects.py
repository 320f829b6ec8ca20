"""Stripe's JSON: its objects, lists, errors and events."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from oncely.providers.stripe.sandbox.ledger import (
    PROCESSING_METHODS,
    Charge,
    ChargeStatus,
    Dispute,
    IntentStatus,
    PaymentIntent,
    RecordedRefund,
    SandboxEntry,
)
from oncely.providers.stripe.sandbox.model import StripeApiError

# The time to respond to a dispute.
RESPONSE_TIME: Final = timedelta(days=7)
_INTENT_EVENTS: Final = {
    IntentStatus.PROCESSING: "payment_intent.processing",
    IntentStatus.SUCCEEDED: "payment_intent.succeeded",
    IntentStatus.CANCELED: "payment_intent.canceled",
    IntentStatus.REQUIRES_PAYMENT_METHOD: "payment_intent.payment_failed",
}


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())


def intent_body(intent: PaymentIntent, *, charge: Charge | None = None) -> dict[str, Any]:
    """Serialize a PaymentIntent. `charge` replaces the id of the latest charge."""
    paid = intent.status is IntentStatus.SUCCEEDED
    action = {"type": "use_stripe_sdk", "use_stripe_sdk": {"type": "three_d_secure_redirect"}}
    return {
        "id": intent.intent_id,
        "object": "payment_intent",
        "amount": intent.amount,
        "amount_capturable": 0,
        "amount_received": intent.amount if paid else 0,
        "automatic_payment_methods": {
            "enabled": True,
            "allow_redirects": "always" if intent.redirects_allowed else "never",
        },
        "canceled_at": _seconds(intent.canceled_at),
        "cancellation_reason": intent.cancellation_reason,
        "capture_method": "automatic",
        "client_secret": f"{intent.intent_id}_secret_sandbox",
        "confirmation_method": "automatic",
        "created": _seconds(intent.created),
        "currency": intent.currency,
        "customer": intent.customer,
        "description": intent.description,
        "last_payment_error": intent.last_payment_error,
        "latest_charge": charge_body(charge) if charge else intent.latest_charge,
        "livemode": False,
        "metadata": dict(intent.metadata),
        "next_action": action if intent.status is IntentStatus.REQUIRES_ACTION else None,
        "payment_method": intent.payment_method,
        "payment_method_types": ["card"],
        "receipt_email": intent.receipt_email,
        "status": intent.status.value,
    }


def charge_body(charge: Charge) -> dict[str, Any]:
    """Serialize a charge."""
    paid = charge.status is ChargeStatus.SUCCEEDED
    return {
        "id": charge.charge_id,
        "object": "charge",
        "amount": charge.amount,
        "amount_captured": charge.amount if paid else 0,
        "amount_refunded": charge.amount_refunded,
        "captured": paid,
        "created": _seconds(charge.created),
        "currency": charge.currency,
        "customer": charge.customer,
        "disputed": charge.disputed,
        "failure_code": charge.failure_code,
        "livemode": False,
        "metadata": dict(charge.metadata),
        "paid": paid,
        "payment_intent": charge.intent_id,
        "payment_method": charge.payment_method,
        "payment_method_details": {"type": PROCESSING_METHODS.get(charge.payment_method, "card")},
        "refunded": charge.amount_refunded == charge.amount,
        "status": charge.status.value,
    }


def refund_body(refund: RecordedRefund) -> dict[str, Any]:
    """Serialize a refund."""
    return {
        "id": refund.refund_id,
        "object": "refund",
        "amount": refund.amount,
        "charge": refund.charge_id,
        "created": _seconds(refund.created),
        "currency": refund.currency,
        "metadata": dict(refund.metadata),
        "payment_intent": refund.intent_id,
        "failure_reason": "declined" if refund.status == "failed" else None,
        "status": refund.status,
    }


def dispute_body(dispute: Dispute) -> dict[str, Any]:
    """Serialize a dispute."""
    return {
        "id": dispute.dispute_id,
        "object": "dispute",
        "amount": dispute.amount,
        "charge": dispute.charge_id,
        "created": _seconds(dispute.created),
        "currency": dispute.currency,
        "evidence_details": {"due_by": _seconds(dispute.created + RESPONSE_TIME)},
        "livemode": False,
        "metadata": {},
        "payment_intent": dispute.intent_id,
        "reason": "fraudulent",
        "status": dispute.status,
    }


def object_body(one: Charge | RecordedRefund | Dispute) -> dict[str, Any]:
    """Serialize a charge, a refund or a dispute."""
    match one:
        case Charge():
            return charge_body(one)
        case RecordedRefund():
            return refund_body(one)
        case Dispute():
            return dispute_body(one)


def list_body(items: Sequence[Mapping[str, Any]], *, url: str, has_more: bool) -> dict[str, Any]:
    """Serialize a page of a list."""
    return {"object": "list", "url": url, "has_more": has_more, "data": list(items)}


def error_body(error: StripeApiError) -> dict[str, Any]:
    """Serialize an error, without its empty fields."""
    fields = {name: value for name, value in error.fields.items() if value is not None}
    intent = {"payment_intent": intent_body(error.intent)} if error.intent else {}
    return {"error": {"message": error.message, **fields, **intent}}


def event_for(
    before: SandboxEntry | None, after: SandboxEntry, *, at: datetime, new_id: Callable[[str], str]
) -> dict[str, Any] | None:
    """Return the event of a change. Returns None if Oncely does not read such events."""
    match before, after:
        case PaymentIntent(status=old), PaymentIntent(status=new) if old is not new:
            type_, body = _INTENT_EVENTS.get(new), intent_body(after)
        case Charge(amount_refunded=old), Charge(amount_refunded=new) if new > old:
            type_, body = "charge.refunded", charge_body(after)
        case RecordedRefund(status=old), RecordedRefund(status="failed") if old != "failed":
            type_, body = "refund.failed", refund_body(after)
        case None, Dispute():
            type_, body = "charge.dispute.created", dispute_body(after)
        case _:
            return None
    if type_ is None:
        return None
    return {
        "id": new_id("evt"),
        "object": "event",
        "type": type_,
        "created": _seconds(at),
        "livemode": False,
        "data": {"object": body},
    }
