"""The claim that makes a worker the owner of a row: what it writes, and why it fails."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import assert_never

from oncely.domain.decisions import escalate
from oncely.domain.effect_outcomes import Json
from oncely.domain.jobs import Decision, Job
from oncely.domain.keys import JobKey, indexable_id
from oncely.domain.lifecycle import NO_ROW, Event, Status, next_status


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The conditional write that makes a worker the owner. It also records the intent."""

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
    subject: str | None = None  # the business id that people search by
    amount: int | None = None  # in minor units of `currency`
    currency: str | None = None
    requires_failed: JobKey | None = None  # another job that must have failed, checked here


def apply_claim(row: Job | None, claim: Claim) -> Job | None:
    """The row after the claim. Returns None if it fails. Stores do exactly this, atomically."""
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
        customer_id=row.customer_id or indexable_id(claim.customer_id),
        subject=row.subject or claim.subject,
        amount=claim.amount if row.amount is None else row.amount,
        currency=row.currency or claim.currency,
    )


def has_conflict(row: Job, other: Claim | Job) -> bool:
    """Whether the same key was used with other business values."""
    return None not in (row.fingerprint, other.fingerprint) and row.fingerprint != other.fingerprint


class ClaimFailure(Enum):
    """Why a claim failed, which decides what happens to the message."""

    CONFLICT = auto()  # same key, other business values: reject the message
    ENDED = auto()  # return the stored result
    LEASED = auto()  # another worker owns it: retry when its lease ends
    LEASE_EXPIRED = auto()  # mark it unknown, so that the reconciler looks it up
    AWAITING_RESOLUTION = auto()  # the reconciler or an operator has it
    RACE_LOST = auto()  # it became claimable just now: retry


def classify_claim_failure(row: Job, claim: Claim) -> ClaimFailure:
    """Why this row refused the claim."""
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
    """Escalate a ready row whose prerequisite has not failed. Returns None if the message is wrong.

    Otherwise the row would be resent, refused and alerted about every few minutes.
    """
    return escalate(reason) if row and row.allows(Event.CLAIM) else None
