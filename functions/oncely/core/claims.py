"""The claim that makes a worker the owner of a row: what it writes, and why it fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import assert_never

from oncely.core.decisions import escalate
from oncely.core.effect_outcomes import Json
from oncely.core.evidence import EvidenceEntry, append_evidence
from oncely.core.job_row import Decision, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, next_status
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


def can_reopen(row: JobRow, claim: Claim) -> bool:
    """Whether a valid message may claim this job in review: certainly nothing was sent.

    The mark alone is not enough: the row must never have been claimed.
    """
    marked = row.awaits_message and not row.was_claimed
    return claim.is_valid and marked and row.allows(Event.CLAIM_REVIEW)


def keeps_message(row: JobRow, claim: Claim) -> bool:
    """Whether to claim again with the message of the row's fingerprint. The store decides."""
    claimable = row.allows(Event.CLAIM) if claim.reopens is None else can_reopen(row, claim)
    return row.fingerprint is not None and claimable and not has_conflict(row, claim)


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
