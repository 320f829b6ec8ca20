"""The events that Stripe emits when its ledger changes."""

from datetime import datetime
from typing import Any, Final

from oncely.providers.stripe.sandbox.ledger import (
    Charge,
    Dispute,
    IntentStatus,
    PaymentIntent,
    RecordedRefund,
    SandboxEntry,
)
from oncely.providers.stripe.sandbox.serializers import (
    charge_body,
    dispute_body,
    intent_body,
    refund_body,
)
from oncely.testing.sandbox.http_messages import new_id

_INTENT_EVENTS: Final = {
    IntentStatus.PROCESSING: "payment_intent.processing",
    IntentStatus.SUCCEEDED: "payment_intent.succeeded",
    IntentStatus.CANCELED: "payment_intent.canceled",
    IntentStatus.REQUIRES_PAYMENT_METHOD: "payment_intent.payment_failed",
}


def event_for(
    before: SandboxEntry | None, after: SandboxEntry, *, at: datetime
) -> dict[str, Any] | None:
    """Return the event of a change. Returns None if Oncely does not read such events."""
    match before, after:
        case PaymentIntent(status=old), PaymentIntent(status=new) if old is not new:
            return _event(_INTENT_EVENTS.get(new), intent_body(after), at)
        case Charge(amount_refunded=old), Charge(amount_refunded=new) if new > old:
            return _event("charge.refunded", charge_body(after), at)
        case RecordedRefund(status=old), RecordedRefund(status="failed") if old != "failed":
            return _event("refund.failed", refund_body(after), at)
        case None, Dispute():
            return _event("charge.dispute.created", dispute_body(after), at)
        case _:
            return None


def _event(type_: str | None, body: dict[str, Any], at: datetime) -> dict[str, Any] | None:
    if type_ is None:
        return None
    return {
        "id": new_id("evt"),
        "object": "event",
        "type": type_,
        "created": int(at.timestamp()),
        "livemode": False,
        "data": {"object": body},
    }
