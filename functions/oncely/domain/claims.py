"""The claim that makes a worker the owner of a row: what it writes, and why it is refused."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import assert_never

from oncely.domain.decisions import escalate
from oncely.domain.effect_outcomes import Json
from oncely.domain.jobs import Decision, Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import NO_ROW, Event, Status, next_status


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The one write that makes a worker the owner; it is also the recorded intent."""

    job_key: JobKey
    job_type: str
    owner: str
    now: datetime
    lease_until: datetime
    message: Mapping[str, Json]
    fingerprint: str | None = None
    customer_id: str | None = None
    key_scope: str = ""
    deployment: str | None = None
    subject: str | None = None  # the business id that people ask by
    amount: int | None = None  # in minor units of `currency`
    currency: str | None = None
    requires_failed: JobKey | None = None  # another job that must have failed, in the same write


def apply_claim(row: Job | None, claim: Claim) -> Job | None:
    """The row after the claim, or None when it is refused. Stores do exactly this, atomically."""
    if row is None:
        row = Job(
            job_key=claim.job_key,
            job_type=claim.job_type,
            status=next_status(NO_ROW, Event.CLAIM),
            message=claim.message,
            created_at=claim.now,
            updated_at=claim.now,
            version=0,
        )
    elif not row.allows(Event.CLAIM) or has_conflict(row, claim):
        return None
    return replace(
        row,
        status=Status.STARTED,
        owner=claim.owner,
        fence=row.fence + 1,
        version=row.version + 1,
        attempts=row.attempts + 1,
        updated_at=claim.now,
        since=None,
        claimed_at=claim.now,
        lease_until=claim.lease_until,
        due_at=claim.lease_until,
        first_sent_at=row.first_sent_at or claim.now,
        key_scope=claim.key_scope if row.key_scope is None else row.key_scope,
        deployment=row.deployment or claim.deployment,
        fingerprint=row.fingerprint or claim.fingerprint,
        customer_id=row.customer_id or claim.customer_id,
        subject=row.subject or claim.subject,
        amount=claim.amount if row.amount is None else row.amount,
        currency=row.currency or claim.currency,
    )


def has_conflict(row: Job, other: Claim | Job) -> bool:
    """Whether the same key was used for other business values."""
    return None not in (row.fingerprint, other.fingerprint) and row.fingerprint != other.fingerprint


class ClaimFailure(Enum):
    """Why a claim was refused, and so what becomes of the message."""

    CONFLICT = auto()  # same key, other business values: the message is wrong
    ENDED = auto()  # answer with the stored result
    LEASED = auto()  # another worker has it: come back when its lease ends
    LEASE_EXPIRED = auto()  # the lease ran out: mark it, so that the reconciler asks
    AWAITING_RESOLUTION = auto()  # the reconciler or a person owns it
    RACE_LOST = auto()  # it became claimable in this very moment: come back


def classify_claim_failure(row: Job, claim: Claim) -> ClaimFailure:
    """What the row that refused a claim says."""
    if has_conflict(row, claim):
        return ClaimFailure.CONFLICT
    match row.status:
        case Status.FINISHED | Status.FAILED:
            return ClaimFailure.ENDED
        case Status.UNKNOWN | Status.NEEDS_REVIEW:
            return ClaimFailure.AWAITING_RESOLUTION
        case Status.STARTED:
            return (
                ClaimFailure.LEASE_EXPIRED if row.lease_expired(claim.now) else ClaimFailure.LEASED
            )
        case Status.READY:
            return ClaimFailure.RACE_LOST
        case unreachable:
            assert_never(unreachable)


def on_prerequisite_not_met(row: Job | None, reason: str) -> Decision | None:
    """A claim whose requirement another job does not meet; None: it is the message that is wrong.

    A row that waits would be sent again, refused and told of every few minutes until its age ends.
    """
    return escalate(reason) if row and row.allows(Event.CLAIM) else None
