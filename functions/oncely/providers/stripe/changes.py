"""What happened to a Stripe charge after it succeeded: its refunds and disputes now."""

from datetime import UTC, datetime
from typing import Final

import stripe

from oncely.core.effect_outcomes import LookupFailed, NotFound
from oncely.core.keys import JobKey, is_job_key
from oncely.core.money import Money
from oncely.plugins.events import ChangeKind, EffectChange
from oncely.providers.stripe.responses import describe_error, is_definitive, metadata_owner

# More refunds than a charge has in practice.
_MAX_REFUNDS: Final = 100
_CLOSED: Final = frozenset({"won", "lost", "warning_closed", "prevented"})
_GIVEN_BACK: Final = frozenset({"succeeded", "pending"})


def read_change(
    client: stripe.StripeClient, object_id: str
) -> EffectChange | NotFound | LookupFailed:
    """Read a dispute or the refunds of a charge, and whose charge it is."""
    try:
        if object_id.startswith(("dp_", "du_")):
            return _read_dispute(client, object_id)
        return _read_refunds(client, object_id)
    except stripe.StripeError as error:
        reason = f"reading {object_id} failed: {describe_error(error)}"
        return NotFound(reason) if is_definitive(error) else LookupFailed(reason)


def _read_dispute(client: stripe.StripeClient, dispute_id: str) -> EffectChange | NotFound:
    dispute = client.v1.disputes.retrieve(dispute_id)
    charge = client.v1.charges.retrieve(_id(dispute.charge))
    if (owner := _owner(charge)) is None:
        return NotFound(f"{charge.id} was not made by Oncely")
    closed = dispute.status in _CLOSED
    due_by = getattr(getattr(dispute, "evidence_details", None), "due_by", None)
    deployment, job_key = owner
    money = Money(dispute.amount, dispute.currency)
    return EffectChange(
        kind=ChangeKind.DISPUTE_CLOSED if closed else ChangeKind.DISPUTED,
        deployment=deployment,
        job_key=job_key,
        ref=_id(charge.payment_intent),
        summary=f"dispute {dispute.id} of {charge.id} over {money} is {dispute.status}",
        respond_by=datetime.fromtimestamp(due_by, UTC) if due_by and not closed else None,
        details={
            "charge_id": charge.id,
            "dispute_id": dispute.id,
            "amount": dispute.amount,
            "currency": dispute.currency,
            "reason": dispute.reason,
            "status": dispute.status,
        },
    )


def _read_refunds(client: stripe.StripeClient, charge_id: str) -> EffectChange | NotFound:
    charge = client.v1.charges.retrieve(charge_id)
    if (owner := _owner(charge)) is None:
        return NotFound(f"{charge.id} was not made by Oncely")
    if not charge.amount_refunded:
        return NotFound(f"{charge.id} has no refund, or no longer")
    deployment, job_key = owner
    made = client.v1.refunds.list({"charge": charge.id, "limit": _MAX_REFUNDS}).data
    given = [one for one in made if one.status in _GIVEN_BACK]
    by_us = all(metadata_owner(one)[0] == deployment for one in given)
    refunded, paid = (
        Money(one, charge.currency) for one in (charge.amount_refunded, charge.amount)
    )
    return EffectChange(
        kind=ChangeKind.REFUNDED,
        deployment=deployment,
        job_key=job_key,
        ref=_id(charge.payment_intent),
        summary=f"{refunded} of {paid} ({charge.id}) was refunded"
        + ("" if by_us else ", not only by Oncely"),
        by_us=by_us,
        details={
            "charge_id": charge.id,
            "amount_refunded": charge.amount_refunded,
            "amount": charge.amount,
            "currency": charge.currency,
        },
    )


def _owner(charge: stripe.Charge) -> tuple[str, JobKey] | None:
    deployment, job_key = metadata_owner(charge)
    if not deployment or not job_key or not is_job_key(job_key):
        return None
    return deployment, JobKey(job_key)


def _id(reference: object) -> str:
    """The id of an object, whether Stripe expanded it or not."""
    return str(getattr(reference, "id", reference))
