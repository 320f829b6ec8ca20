"""The claim that makes a worker the owner of a row: what it writes, and why it fails."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, assert_never

from oncely.core.effect_outcomes import Json, Succeeded
from oncely.core.job_row import CLOCK_SKEW, EvidenceEntry, JobRow, append_evidence
from oncely.core.job_type import AlreadyResolved, AnyJobType, Proceed
from oncely.core.keys import JobKey, fingerprint
from oncely.core.lifecycle import Event, Status
from oncely.core.text import format_minute

if TYPE_CHECKING:
    from oncely.core.table_guard import TableOpen

_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class ResubmissionLimit:
    """The deployment's limit. The first resubmission may follow the decline at once."""

    min_interval: timedelta
    max_per_day: int

    def refusal(self, resubmissions: Sequence[datetime], now: datetime) -> str | None:
        """Why the next resubmission is refused. Returns None if it may run."""
        recent = recent_resubmissions(resubmissions, now)
        if len(recent) >= self.max_per_day:
            free_at = format_minute(recent[-self.max_per_day] + _DAY)
            return f"it was resubmitted {len(recent)} times in 24 hours: send it after {free_at}"
        if recent and now - recent[-1] < self.min_interval:
            seconds = self.min_interval.total_seconds()
            return f"it was resubmitted less than {seconds:g} seconds ago: send it later"
        return None


def recent_resubmissions(resubmissions: Sequence[datetime], now: datetime) -> tuple[datetime, ...]:
    """The resubmissions of the last 24 hours."""
    return tuple(at for at in resubmissions if now - at < _DAY)


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
    """Whether a valid message may claim this job in review now."""
    is_early = row.runs_later(claim.now, claim.schedule_limit)
    return claim.is_valid and row.runs_by_message and not is_early


def keeps_message(row: JobRow, claim: Claim) -> bool:
    """Whether to claim again with the message of the row's fingerprint. The store decides."""
    claimable = row.allows(Event.CLAIM) if claim.reopens is None else can_reopen(row, claim)
    return row.fingerprint is not None and claimable and not has_conflict(row, claim)


def evidence_of_reopening(review: JobRow, claim: Claim) -> tuple[EvidenceEntry, ...]:
    """The evidence of a claimed review. An ordinary claim must cost one write, so it has none."""
    reason = "a valid message arrived, and nothing had been sent"
    entry = EvidenceEntry.of_step(
        review.status, Event.CLAIM_REVIEW, at=claim.now, actor="worker", reason=reason
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


def build_claim(  # each is part of the row
    contract: AnyJobType,
    key: JobKey,
    precheck: Proceed[Any] | AlreadyResolved[Any],
    table: "TableOpen",
    *,
    deadline: datetime,
    now: datetime,
    owner: str,
) -> Claim:
    """The write that makes a worker the owner."""
    return Claim(
        job_key=key,
        job_type=contract.job_type,
        owner=owner,
        now=now,
        # A call may begin until the deadline and take its timeout. After that the owner is
        # certainly gone.
        lease_until=deadline + contract.policy.profile.request_timeout + CLOCK_SKEW,
        schedule_limit=contract.effective_schedule_limit(),
        message=contract.to_dict(),
        fingerprint=None if precheck.values is None else fingerprint(precheck.values),
        customer_id=precheck.customer_id,
        subject=contract.indexed_subject(),
        amount=None if precheck.money is None else precheck.money.amount,
        currency=None if precheck.money is None else precheck.money.currency,
        deployment=table.deployment,
        provider=precheck.provider,
        key_scope=contract.key_scope() if isinstance(precheck, Proceed) else "",
        requires_failed=precheck.requires_failed if isinstance(precheck, Proceed) else None,
        is_valid=isinstance(precheck, Proceed) or isinstance(precheck.outcome, Succeeded),
    )
