"""The claim that makes a worker the owner of a row: what it writes, and why it fails."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import assert_never

from oncely.core.decisions import escalate
from oncely.core.effect_outcomes import Json
from oncely.core.evidence import EvidenceEntry, append_evidence
from oncely.core.job_row import ENGINE_NUMBER, Decision, JobRow
from oncely.core.keys import JobKey, indexable_id
from oncely.core.lifecycle import NO_ROW, Event, Status, next_status
from oncely.core.resubmissions import ResubmissionLimit, recent_resubmissions


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The conditional write that makes a worker the owner. It also records the intent."""

    job_key: JobKey
    job_type: str
    owner: str
    now: datetime
    lease_until: datetime
    schedule_limit: timedelta  # of the contract: a run time further ahead is not honored
    message: Mapping[str, Json]
    fingerprint: str | None = None
    customer_id: str | None = None
    key_scope: str = ""
    deployment: str | None = None
    provider: str | None = None  # from the business rows
    subject: str | None = None  # the business id that people search by
    amount: int | None = None  # in minor units of `currency`
    currency: str | None = None
    requires_failed: JobKey | None = None  # another job that must have failed, checked here
    previous_resubmissions: tuple[datetime, ...] | None = None  # of that job, if limited
    is_valid: bool = True  # its precheck found no anomaly, so it may claim a job in review
    reopens: JobRow | None = None  # the review that it claims, as it was read

    @property
    def resubmissions(self) -> tuple[datetime, ...] | None:
        """The resubmissions of the last 24 hours, with this one. Returns None if not limited."""
        previous = self.previous_resubmissions
        return None if previous is None else (*recent_resubmissions(previous, self.now), self.now)

    def prerequisite_met_by(self, other: JobRow | None) -> bool:
        """Whether the other job has failed, with the resubmissions that the limit counted."""
        if other is None or other.is_forged or not other.status.is_failed:
            return False
        return self.previous_resubmissions in {None, other.resubmissions}


def apply_claim(row: JobRow | None, claim: Claim) -> JobRow | None:
    """The row after the claim. Returns None if it fails. Stores do exactly this, atomically."""
    if row is None and claim.reopens is not None:
        return None
    if row is None:
        row = JobRow(
            job_key=claim.job_key,
            job_type=claim.job_type,
            status=next_status(NO_ROW, Event.CLAIM),
            message=claim.message,
            created_at=claim.now,
            updated_at=claim.now,
            version=0,
        )
    elif not _can_claim(row, claim):
        return None
    if claim.reopens is not None:
        row = _reopen(row, claim)
    return replace(
        row,
        # The message that the fingerprint was computed from. Once set, neither changes.
        message=claim.message if row.fingerprint is None else row.message,
        # A producer may have inserted another, with which no follow-up is ever sent.
        job_type=claim.job_type,
        status=Status.STARTED,
        owner=claim.owner,
        fence=row.fence + 1,
        version=row.version + 1,
        min_engine=ENGINE_NUMBER,
        attempts=row.attempts + 1,
        updated_at=claim.now,
        since=None,
        waits_for=None,
        claimed_at=claim.now,
        lease_until=claim.lease_until,
        due_at=claim.lease_until,
        first_sent_at=row.first_sent_at or claim.now,
        key_scope=claim.key_scope if row.key_scope is None else row.key_scope,
        deployment=row.deployment or claim.deployment,
        provider=row.provider or claim.provider,
        fingerprint=row.fingerprint or claim.fingerprint,
        customer_id=row.customer_id or indexable_id(claim.customer_id),
        subject=row.subject or claim.subject,
        amount=claim.amount if row.amount is None else row.amount,
        currency=row.currency or claim.currency,
        resubmissions=row.resubmissions or claim.resubmissions or (),
    )


def _can_claim(row: JobRow, claim: Claim) -> bool:
    if has_conflict(row, claim) or row.needs_newer_engine:
        return False
    if claim.reopens is None:
        return row.allows(Event.CLAIM) and not row.runs_later(claim.now, claim.schedule_limit)
    return can_reopen(row, claim) and row.version == claim.reopens.version


def can_reopen(row: JobRow, claim: Claim) -> bool:
    """Whether a valid message may claim this job in review: certainly nothing was sent.

    The mark alone is not enough: the row must never have been claimed.
    """
    marked = row.awaits_message and not row.was_claimed
    return claim.is_valid and marked and row.allows(Event.CLAIM_REVIEW)


def keeps_message(row: JobRow, claim: Claim) -> bool:
    """Whether the claim succeeds, and the row keeps the message of its fingerprint."""
    return row.fingerprint is not None and _can_claim(row, claim)


def _reopen(review: JobRow, claim: Claim) -> JobRow:
    """The review with evidence of the claim, and a new age."""
    return replace(
        review,
        evidence=evidence_of_reopening(review, claim),
        age_from=claim.now,
    )


def evidence_of_reopening(review: JobRow, claim: Claim) -> tuple[EvidenceEntry, ...]:
    """The evidence of a claimed review. An ordinary claim must cost one write, so it has none."""
    entry = EvidenceEntry(
        at=claim.now,
        event=Event.CLAIM_REVIEW,
        from_status=review.status,
        to_status=next_status(review.status, Event.CLAIM_REVIEW),
        reason="a valid message arrived, and nothing had been sent",
        actor="worker",
    )
    return append_evidence(review.evidence, entry)


def has_conflict(row: JobRow, other: Claim | JobRow) -> bool:
    """Whether the same key was used with other business values."""
    return None not in (row.fingerprint, other.fingerprint) and row.fingerprint != other.fingerprint


class ClaimFailure(Enum):
    """Why a claim failed, which decides what happens to the message."""

    CONFLICT = auto()  # same key, other business values: reject the message
    ENDED = auto()  # return the stored result
    LEASED = auto()  # another worker owns it: retry when its lease ends
    LEASE_EXPIRED = auto()  # mark it unknown, so that the reconciler looks it up
    AWAITING_RESOLUTION = auto()  # the reconciler or an operator handles it
    EARLY = auto()  # its run time is in the future: its row sends a message then
    RACE_LOST = auto()  # it became claimable just now: retry


def classify_claim_failure(
    row: JobRow, claim: Claim | None, now: datetime, schedule_limit: timedelta
) -> ClaimFailure:
    """Why this row refused the claim, or why a message is too early for one."""
    if claim is not None and has_conflict(row, claim):
        return ClaimFailure.CONFLICT
    match row.status:
        case Status.FINISHED | Status.FAILED | Status.CANCELLED:
            return ClaimFailure.ENDED
        case Status.NEEDS_REVIEW if claim is not None and can_reopen(row, claim):
            return ClaimFailure.RACE_LOST
        case Status.UNKNOWN | Status.NEEDS_REVIEW:
            return ClaimFailure.AWAITING_RESOLUTION
        case Status.STARTED:
            return ClaimFailure.LEASE_EXPIRED if row.lease_expired(now) else ClaimFailure.LEASED
        case Status.READY:
            is_early = row.runs_later(now, schedule_limit)
            return ClaimFailure.EARLY if is_early else ClaimFailure.RACE_LOST
        case unreachable:
            assert_never(unreachable)


def prerequisite_refusal(
    claim: Claim, other: JobRow | None, limit: ResubmissionLimit
) -> str | None:
    """Why the prerequisite is not met. Returns None if the other job failed just now: retry."""
    if other is None or other.is_forged:
        state = "not there"
    elif other.status.is_failed:
        return limit.refusal(other.resubmissions, claim.now)
    else:
        state = other.status.label
    return f"{claim.requires_failed} must have failed, it is {state}"


def on_prerequisite_not_met(row: JobRow, reason: str) -> Decision | None:
    """Escalate a ready row whose prerequisite is not met. Returns None if it is not ready.

    Otherwise the row would be resent, refused and alerted about every few minutes.
    """
    return escalate(reason) if row.allows(Event.CLAIM) else None
