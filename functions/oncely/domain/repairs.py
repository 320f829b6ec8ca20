"""Repairs: what an operator may do about a job, when, and which decision it makes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from oncely.domain.decisions import ENDED_FIELDS, MESSAGE_GRACE, absence_conclusive_at, requeue
from oncely.domain.due import resend
from oncely.domain.effect_outcomes import EffectOutcome, NotFound, Succeeded
from oncely.domain.jobs import Decision, Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import RetryPolicy, RetrySafety
from oncely.domain.text import format_minute, single_line


class Repair(StrEnum):
    """A change that an operator can make to one job. The page and the CLI use these values."""

    LOOK_UP = "lookup"  # look up the outcome at the provider now
    REOPEN = "reopen"  # back to ready, with proof that nothing was done
    MARK_FINISHED = "mark-finished"  # done at the provider
    MARK_FAILED = "mark-failed"  # not done at the provider, and never will be
    RESEND = "resend"  # for a ready job whose message is lost
    RESUBMIT = "resubmit"  # a new job after a definite failure

    @property
    def label(self) -> str:
        """The text of the button."""
        return _LABELS[self]


_LABELS: Final[Mapping[Repair, str]] = MappingProxyType(
    {
        Repair.LOOK_UP: "Look up at the provider",
        Repair.REOPEN: "Return to ready",
        Repair.MARK_FINISHED: "Mark as done",
        Repair.MARK_FAILED: "Mark as failed",
        Repair.RESEND: "Resend message",
        Repair.RESUBMIT: "Resubmit as a new job",
    }
)


@dataclass(frozen=True, kw_only=True)
class RepairOption:
    """Whether a repair is allowed now. `reason` says what it does, or why it is not allowed."""

    repair: Repair
    allowed: bool
    reason: str
    needs_reference: bool = False


def repair_options(
    job: Job, policy: RetryPolicy, *, now: datetime, can_resubmit: bool = False
) -> tuple[RepairOption, ...]:
    """All repairs, for the job as it is now."""
    return tuple(
        repair_option(job, policy, repair, now=now, can_resubmit=can_resubmit) for repair in Repair
    )


def repair_option(
    job: Job, policy: RetryPolicy, repair: Repair, *, now: datetime, can_resubmit: bool = False
) -> RepairOption:
    """One repair, for the job as it is now."""
    match repair:
        case Repair.LOOK_UP:
            allowed, reason = _check_look_up(job, policy, now)
        case Repair.REOPEN:
            allowed, reason = _check_reopen(job, policy)
        case Repair.MARK_FINISHED:
            allowed, reason = _check_mark_finished(job, policy)
        case Repair.MARK_FAILED:
            allowed, reason = _check_mark_failed(job, policy)
        case Repair.RESEND:
            allowed, reason = _check_resend(job, policy, now)
        case Repair.RESUBMIT:
            allowed, reason = _check_resubmit(job, can_resubmit=can_resubmit)
        case unreachable:
            assert_never(unreachable)
    needs_reference = repair is Repair.MARK_FINISHED and policy.safety is not RetrySafety.NATURAL
    return RepairOption(
        repair=repair, allowed=allowed, reason=reason, needs_reference=needs_reference
    )


def unreadable_job_options(job: Job, policy: RetryPolicy | None) -> tuple[RepairOption, ...]:
    """All repairs of a job whose message cannot be read. `policy` is None for an unknown type."""
    return tuple(unreadable_job_option(job, policy, repair) for repair in Repair)


def unreadable_job_option(job: Job, policy: RetryPolicy | None, repair: Repair) -> RepairOption:
    """An operator can only close such a job. Nothing else is known to be safe."""
    allowed, reason = _check_unreadable_job(job, policy, repair)
    needs_reference = repair is Repair.MARK_FINISHED and bool(
        policy and policy.safety is not RetrySafety.NATURAL
    )
    return RepairOption(
        repair=repair, allowed=allowed, reason=reason, needs_reference=needs_reference
    )


def reopen(
    job: Job,
    policy: RetryPolicy,
    *,
    reason: str,
    lookup: EffectOutcome | None,
    looked_up_at: datetime,
) -> Decision | str:
    """The decision to return to ready, or why there is no proof that nothing was done.

    `lookup` is None if the row itself is the proof.
    """
    match lookup:
        case None:
            return _reopen_decision(reason, looked_up_at)
        case NotFound(conclusive=proved) if proved or looked_up_at >= absence_conclusive_at(
            job, policy
        ):
            # A new idempotency key: the provider may replay the old one's error.
            full_reason = f"{reason}; {lookup.reason}"
            return _reopen_decision(
                full_reason,
                looked_up_at,
                key_number=job.key_number + 1,
                first_sent_at=None,
                key_scope=None,
            )
        case NotFound():
            retry_at = format_minute(absence_conclusive_at(job, policy))
            return f"{lookup.reason}, but a request may still be in flight: retry after {retry_at}"
        case answer:
            return f"the lookup does not prove that nothing was done: {answer.reason}"


def can_reopen_without_lookup(job: Job, policy: RetryPolicy) -> bool:
    """Whether the row alone proves that running it again is safe."""
    return policy.safety is RetrySafety.NATURAL or not job.was_claimed


def resolve_manually(job: Job, repair: Repair, *, reason: str, reference: str | None) -> Decision:
    """End a job with the outcome that an operator verified at the provider."""
    finished = repair is Repair.MARK_FINISHED
    full_reason = reason if reference is None else f"{reason} (reference {reference})"
    result = {**(job.result or {}), **({"reference": reference} if reference else {})}
    return Decision(
        event=Event.RESOLVE_FINISHED if finished else Event.RESOLVE_FAILED,
        reason=full_reason,
        changes={
            **ENDED_FIELDS,
            "result": result if finished else {"code": _RESOLVED_BY_OPERATOR, **result},
            # The proof of a failure, such as a refund, must not be looked up or canceled later.
            "provider_ref": job.provider_ref or (reference if finished else None),
            "last_error": None if finished else single_line(full_reason),
        },
    )


def needs_closing(job: Job, policy: RetryPolicy) -> bool:
    """Whether something may still be open at the provider, so that the job must not fail yet."""
    return policy.leaves_open and job.provider_ref is not None


def close_then_fail(job: Job, *, reason: str, reference: str | None, now: datetime) -> Decision:
    """Let a worker close what is open at the provider. Only then does the job fail."""
    full_reason = reason if reference is None else f"{reason} (reference {reference})"
    result = {**(job.result or {}), **({"reference": reference} if reference else {})}
    closing = {"reason": single_line(full_reason), "code": _RESOLVED_BY_OPERATOR, "result": result}
    return _reopen_decision(full_reason, now, event=Event.CLOSE_AND_FAIL, closing=closing)


def resolved_elsewhere(job: Job, outcome: EffectOutcome) -> bool:
    """Whether the business rows were changed by another payment, such as a manual one."""
    own = job.result or {}
    return isinstance(outcome, Succeeded) and any(
        own.get(name) != value for name, value in outcome.result.items()
    )


def operator_resend(job: Job, policy: RetryPolicy, *, reason: str, now: datetime) -> Decision:
    """Resend the message of a ready job on an operator's request."""
    resent = resend(job, policy, now)
    return Decision(event=resent.event, reason=reason, changes=resent.changes, alert=resent.alert)


def note(reason: str) -> Decision:
    """Add evidence without changing the status."""
    return Decision(event=Event.NOTE, reason=reason)


def note_resubmission(
    job: Job, policy: RetryPolicy, *, new_key: JobKey, reason: str, now: datetime
) -> Decision:
    """Note the new job, and keep this row until then: the new job requires it to be failed."""
    # Rows store expiry in whole seconds.
    until = (now + policy.limits.max_age + MESSAGE_GRACE).replace(microsecond=0)
    kept = {} if job.expires_at is None else {"expires_at": max(job.expires_at, until)}
    return Decision(event=Event.NOTE, reason=f"resubmitted as {new_key}: {reason}", changes=kept)


def lookup_summary(job: Job) -> str:
    """The outcome of a lookup in a few words."""
    match job.status:
        case Status.READY:
            return "not done"
        case Status.STARTED:
            return "in progress"
        case Status.UNKNOWN:
            return "still unknown"
        case Status.FINISHED:
            return "succeeded"
        case Status.FAILED:
            return "declined"
        case Status.NEEDS_REVIEW:
            return "does not match the job"
        case unreachable:
            assert_never(unreachable)


def _reopen_decision(
    reason: str, now: datetime, *, event: Event = Event.REOPEN, **changes: object
) -> Decision:
    # An operator decided, so all counters and the age restart.
    return requeue(
        event,
        reason,
        run_at=now,
        attempts=0,
        timeouts=0,
        unreachable=0,
        paused_seconds=0,
        stranded_fence=None,
        stranded_since=None,
        reopened_at=now,
        **{"closing": None, **changes},
    )


def _check_look_up(job: Job, policy: RetryPolicy, now: datetime) -> tuple[bool, str]:
    provider = policy.profile.name
    match job.status:
        case Status.UNKNOWN:
            return True, f"looks up the outcome at {provider} and records it"
        case Status.STARTED if job.lease_expired(now):
            return True, f"its worker's lease expired: looks up the outcome at {provider}"
        case Status.STARTED:
            return False, f"a worker holds the lease until {format_minute(job.lease_until or now)}"
        case Status.NEEDS_REVIEW if _can_look_up(policy):
            return True, f"looks up the outcome at {provider} and notes it; you decide what follows"
        case Status.NEEDS_REVIEW:
            return False, f"{provider} has no lookup for this effect"
        case Status.READY | Status.FINISHED | Status.FAILED:
            return False, _not_allowed_reason(job.status)
        case unreachable:
            assert_never(unreachable)


def _check_reopen(job: Job, policy: RetryPolicy) -> tuple[bool, str]:
    provider = policy.profile.name
    match job.status:
        case Status.NEEDS_REVIEW if not job.was_claimed:
            return True, "runs the job: no worker ever claimed it, so nothing was sent"
        case Status.NEEDS_REVIEW if policy.safety is RetrySafety.NATURAL:
            return True, "runs the job again, which is safe to repeat"
        case Status.NEEDS_REVIEW if _can_look_up(policy):
            return (True, f"looks it up at {provider}, and runs it again only if nothing was done")
        case Status.NEEDS_REVIEW:
            return (False, f"{provider} has no lookup for this effect: mark it as done or failed")
        case Status.UNKNOWN:
            return (False, "look it up: if nothing was done, it returns to ready automatically")
        case Status.READY:
            return False, "it is already ready"
        case Status.STARTED | Status.FINISHED | Status.FAILED:
            return False, _not_allowed_reason(job.status)
        case unreachable:
            assert_never(unreachable)


def _check_mark_finished(job: Job, policy: RetryPolicy) -> tuple[bool, str]:
    if job.allows(Event.RESOLVE_FINISHED):
        return (
            True,
            f"you verified at {policy.profile.name} that it is done: business rows follow",
        )
    return False, _not_allowed_reason(job.status)


def _check_mark_failed(job: Job, policy: RetryPolicy) -> tuple[bool, str]:
    if job.allows(Event.CLOSE_AND_FAIL) and needs_closing(job, policy):
        return True, (
            f"looks up the outcome at {policy.profile.name}; a worker closes what is still open "
            "there, then the job fails"
        )
    if job.allows(Event.RESOLVE_FAILED):
        return (
            True,
            f"you verified at {policy.profile.name} that it is not done: business rows follow",
        )
    return False, _not_allowed_reason(job.status)


def _check_resend(job: Job, policy: RetryPolicy, now: datetime) -> tuple[bool, str]:
    if not job.allows(Event.RESEND):
        return False, "only a ready job can be resent: " + _not_allowed_reason(job.status)
    if age_reason := job.past_max_age(policy.limits.max_age, now):
        return False, f"{age_reason}: the next sweep escalates it; then you can return it to ready"
    return True, "resends its message; duplicates are harmless"


def _check_resubmit(job: Job, *, can_resubmit: bool) -> tuple[bool, str]:
    if job.status is not Status.FAILED:
        reason = _not_allowed_reason(job.status)
        return False, f"only a failed job can be resubmitted: {reason}"
    if not can_resubmit:
        return False, "this job type cannot be resubmitted: send a new message"
    return True, "sends a new job, which runs only while this one stays failed"


def _check_unreadable_job(job: Job, policy: RetryPolicy | None, repair: Repair) -> tuple[bool, str]:
    cannot = "this deployment cannot read its message"
    # A job of an unknown type may have left something open, too.
    may_be_open = job.provider_ref is not None and (policy is None or policy.leaves_open)
    match job.status:
        case Status.NEEDS_REVIEW if repair is Repair.MARK_FAILED and may_be_open:
            return False, (
                f"{job.provider_ref} may still be open at the provider, and {cannot}, so no worker "
                "can close it: deploy a version that can"
            )
        case Status.NEEDS_REVIEW if repair in _OPERATOR_FINDINGS:
            return True, (
                f"you verified at the provider that it is {_OPERATOR_FINDINGS[repair]}; "
                f"business rows are not changed, because {cannot}"
            )
        case Status.NEEDS_REVIEW:
            return False, f"{cannot}: deploy a version that can, or mark it as done or failed"
        case Status.FINISHED | Status.FAILED:
            return False, _not_allowed_reason(job.status)
        case Status.READY | Status.STARTED | Status.UNKNOWN:
            return False, f"{cannot}: the reconciler escalates it when it is due"
        case unreachable:
            assert_never(unreachable)


def _not_allowed_reason(status: Status) -> str:
    match status:
        case Status.READY:
            return "it is waiting for a worker, and nothing is open at the provider"
        case Status.STARTED:
            return "a worker claimed it: look it up after its lease expired"
        case Status.UNKNOWN:
            return "its outcome is unknown: look it up at the provider"
        case Status.FINISHED:
            return "it is already done"
        case Status.FAILED:
            return "it has already failed"
        case Status.NEEDS_REVIEW:
            return "it needs review first"
        case unreachable:
            assert_never(unreachable)


def _can_look_up(policy: RetryPolicy) -> bool:
    asks = policy.safety in {RetrySafety.KEYED, RetrySafety.LOOKUP}
    return asks and policy.profile.lookup_lag is not None


_RESOLVED_BY_OPERATOR: Final = "resolved_by_operator"

# What the operator verified at the provider.
_OPERATOR_FINDINGS: Final[Mapping[Repair, str]] = MappingProxyType(
    {Repair.MARK_FINISHED: "done", Repair.MARK_FAILED: "not done"}
)
