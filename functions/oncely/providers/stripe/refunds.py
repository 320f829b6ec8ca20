"""Refunds at Stripe: one call with our key, and a list that shows whether it arrived.

Also what happened to a charge after it succeeded: its refunds and disputes now.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import stripe

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    Json,
    LookupFailed,
    NotFound,
    NotSent,
    Pending,
    ProviderState,
    Succeeded,
    after_send,
)
from oncely.core.keys import IdempotencyKey, JobKey, is_job_key
from oncely.core.money import Money
from oncely.plugins.events import ChangeKind, EffectChange
from oncely.providers.interfaces import ChargeState, Refund, absent_refund
from oncely.providers.stripe.responses import (
    describe_error,
    error_code,
    is_definitive,
    is_replay,
    metadata_owner,
    not_sent_outcome,
    request_id,
)

# More refunds than a charge has in practice, and one page of the list.
MAX_REFUNDS: Final = 100
# Surely in the charge's own sum. To count another one as listed could hide ours.
_GIVEN: Final = frozenset({"pending", "succeeded"})
_ALREADY_REFUNDED: Final = "charge_already_refunded"
# The states of a dispute that is decided.
_CLOSED: Final = frozenset({"won", "lost", "warning_closed", "prevented"})


@dataclass(frozen=True)
class StripeRefunds:
    """Refunds of charges, each found again by the job key and deployment in its metadata."""

    client: stripe.StripeClient
    credential: str = ""
    livemode: bool | None = None  # the mode of our API key; None if its prefix has none

    def read_charge(self, charge_id: str) -> ChargeState | NotFound | NotSent:
        """Read what was captured and refunded, by us or by hand."""
        try:
            charge = self.client.v1.charges.retrieve(charge_id)
        except stripe.StripeError as error:
            reason = f"reading {charge_id} failed: {describe_error(error)}"
            if is_definitive(error):
                return NotFound(reason)
            return not_sent_outcome(error) or NotSent(reason)
        return ChargeState(
            captured=Money(charge.amount_captured, charge.currency),
            refunded=charge.amount_refunded,
            disputed=charge.disputed,
            order_id=getattr(charge.metadata, "order_id", None),
            deployment=metadata_owner(charge)[0],
        )

    def read_change(self, object_id: str) -> EffectChange | NotFound | LookupFailed:
        """Read what happened to a charge after it succeeded: a dispute, or its refunds."""
        try:
            if object_id.startswith(("dp_", "du_")):
                return _read_dispute(self.client, object_id)
            return _read_refunds(self.client, object_id)
        except stripe.StripeError as error:
            reason = f"reading {object_id} failed: {describe_error(error)}"
            return NotFound(reason) if is_definitive(error) else LookupFailed(reason)

    def refund(self, refund: Refund, *, idempotency_key: IdempotencyKey) -> EffectOutcome:
        """Create the refund. After an error, the list of the charge's refunds is the outcome."""
        try:
            made = self.client.v1.refunds.create(
                {
                    "charge": refund.charge_id,
                    "amount": refund.money.amount,
                    "metadata": _metadata(refund),
                },
                {"idempotency_key": idempotency_key},
            )
        except stripe.StripeError as error:
            return not_sent_outcome(error) or self._refund_outcome_after_error(error, refund)
        # A replayed response has the refund as it was then, and it may have failed since.
        return after_send(self.lookup_refund(refund)) if is_replay(made) else _outcome(made, refund)

    def lookup_refund(self, refund: Refund) -> ProviderState | NotFound | LookupFailed:
        """List the charge's refunds, and find ours by its metadata.

        The list may lag, so without ours it is compared with what the charge itself counts.
        """
        name, owner = refund.charge_id, (refund.deployment, refund.job_key)
        try:
            page = self.client.v1.refunds.list({"charge": name, "limit": MAX_REFUNDS})
        except stripe.StripeError as error:
            return LookupFailed(f"listing the refunds failed: {describe_error(error)}")
        if page.has_more:
            return Anomalous(
                f"{name} has more than {MAX_REFUNDS} refunds: search for one of this job in "
                "Stripe's dashboard"
            )
        match [one for one in page.data if metadata_owner(one) == owner]:
            case []:
                listed = sum(one.amount for one in page.data if one.status in _GIVEN)
                return absent_refund(refund, self.read_charge(name), listed=listed)
            case [one]:
                return _outcome(one, refund)
            case several:
                ids = ", ".join(one.id for one in several)
                return Anomalous(f"{name} has several refunds of this job: {ids}")

    def _refund_outcome_after_error(
        self, error: stripe.StripeError, refund: Refund
    ) -> EffectOutcome:
        match self.lookup_refund(refund):
            # Only now is it declined: the refund in the error could have been ours.
            case NotFound() if error_code(error) == _ALREADY_REFUNDED:
                return Declined(f"declined: {describe_error(error)}", _ALREADY_REFUNDED)
            case NotFound() if is_definitive(error):
                return Anomalous(f"Stripe rejects the refund: {describe_error(error)}")
            case NotFound() | LookupFailed():
                reason = f"refunding {refund.charge_id}: {describe_error(error)}"
                return Ambiguous(reason, replayed=is_replay(error))
            case outcome:
                return outcome


def _outcome(made: stripe.Refund, refund: Refund) -> ProviderState:
    result: dict[str, Json] = {
        "refund": made.id,
        "charge_id": refund.charge_id,
        "amount": made.amount,
        "currency": made.currency,
        "request_id": request_id(made),
    }
    compared = {
        "charge": (getattr(made.charge, "id", made.charge), refund.charge_id),
        "amount": (made.amount, refund.money.amount),
        "currency": (made.currency, refund.money.currency),
    }
    for name, (theirs, ours) in compared.items():
        if theirs != ours:
            reason = f"{made.id} is not this job's refund: its {name} is {theirs}, not {ours}"
            return Anomalous(reason, made.id, result)
    match made.status:
        case "succeeded":
            return Succeeded(f"refunded {refund.money} as {made.id}", made.id, result)
        case "pending":
            return Pending(f"Stripe is still processing {made.id}")
        case "failed" | "canceled" as status:
            code = str(getattr(made, "failure_reason", None) or status)
            return Declined(f"{made.id} {status}: {code}", code, result)
        case other:
            return Anomalous(f"{made.id} has the unexpected status {other}", made.id, result)


def _metadata(refund: Refund) -> dict[str, str]:
    named = {
        "job_key": refund.job_key,
        "order_id": refund.order_id,
        "refund_id": refund.refund_id,
        "deployment": refund.deployment,
    }
    return {name: value for name, value in named.items() if value}


def _read_dispute(client: stripe.StripeClient, dispute_id: str) -> EffectChange | NotFound:
    dispute = client.v1.disputes.retrieve(dispute_id)
    charge = client.v1.charges.retrieve(_id(dispute.charge))
    if (owner := _charge_owner(charge)) is None:
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
    if (owner := _charge_owner(charge)) is None:
        return NotFound(f"{charge.id} was not made by Oncely")
    if not charge.amount_refunded:
        return NotFound(f"{charge.id} has no refund, or no longer")
    deployment, job_key = owner
    made = client.v1.refunds.list({"charge": charge.id, "limit": MAX_REFUNDS}).data
    given = [one for one in made if one.status in _GIVEN]
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


def _charge_owner(charge: stripe.Charge) -> tuple[str, JobKey] | None:
    deployment, job_key = metadata_owner(charge)
    if not deployment or not job_key or not is_job_key(job_key):
        return None
    return deployment, JobKey(job_key)


def _id(reference: object) -> str:
    """The id of an object, whether Stripe expanded it or not."""
    return str(getattr(reference, "id", reference))
