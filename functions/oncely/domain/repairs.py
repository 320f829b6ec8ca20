"""What a person may do about a job, when, and what it changes: each repair is one move."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from oncely.domain.decisions import (
    ENDED_FIELDS,
    MESSAGE_GRACE,
    absence_conclusive_at,
    requeue,
)
from oncely.domain.due import resend
from oncely.domain.effect_outcomes import EffectOutcome, NotFound, Succeeded
from oncely.domain.jobs import Decision, Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import RetryPolicy, RetrySafety
from oncely.domain.text import format_minute, single_line


class Repair(StrEnum):
    """What a person can ask for. Pages and commands name these values."""

    LOOK_UP = "lookup"  # ask the provider now
    REOPEN = "reopen"  # back to ready, with proof that nothing happened
    MARK_FINISHED = "mark-finished"  # it is done outside: say so
    MARK_FAILED = "mark-failed"  # it is not done outside and will not be: say so
    RESEND = "resend"  # send its message again, as after dead letters
    RESUBMIT = "resubmit"  # a new business attempt after a plain no

    @property
    def label(self) -> str:
        """What stands on the button."""
        return _LABELS[self]


_LABELS: Final[Mapping[Repair, str]] = MappingProxyType(
    {
        Repair.LOOK_UP: "Ask the provider now",
        Repair.REOPEN: "Return to ready",
        Repair.MARK_FINISHED: "Mark as done",
        Repair.MARK_FAILED: "Mark as failed",
        Repair.RESEND: "Send its message again",
        Repair.RESUBMIT: "Try again as a new attempt",
    }
)


@dataclass(frozen=True, kw_only=True)
class RepairOption:
    """Whether a repair is open now; `why` says what it will do, or why it is not."""

    repair: Repair
    allowed: bool
    reason: str
    needs_reference: bool = False


def repair_options(
    job: Job, policy: RetryPolicy, *, now: datetime, can_resubmit: bool = False
) -> tuple[RepairOption, ...]:
    """Every repair, each with a plain sentence."""
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
    """Every repair of a job whose message this deployment cannot read; None: nor knows its type."""
    return tuple(unreadable_job_option(job, policy, repair) for repair in Repair)


def unreadable_job_option(job: Job, policy: RetryPolicy | None, repair: Repair) -> RepairOption:
    """Such a job can be closed by a person, so that it ends; nothing else is known to be safe."""
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
    """The move back to ready, or why there is no proof that nothing happened.

    `heard`: what the provider said to the question; None: the row itself is the proof.
    """
    match lookup:
        case None:
            return _reopen_decision(reason, looked_up_at)
        case NotFound(conclusive=proved) if proved or looked_up_at >= absence_conclusive_at(
            job, policy
        ):
            # The key moves on, since the provider may remember the old one with its error.
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
            return (
                f"{lookup.reason}, but a request may still be under way: try again after {retry_at}"
            )
        case answer:
            return f"this is no proof that nothing happened: {answer.reason}"


def can_reopen_without_lookup(job: Job, policy: RetryPolicy) -> bool:
    """Whether the row alone shows that running it again does no harm."""
    return policy.safety is RetrySafety.NATURAL or not job.was_claimed


def resolve_manually(job: Job, repair: Repair, *, reason: str, reference: str | None) -> Decision:
    """A person's word about what is true outside."""
    finished = repair is Repair.MARK_FINISHED
    full_reason = reason if reference is None else f"{reason} (reference {reference})"
    result = {**(job.result or {}), **({"reference": reference} if reference else {})}
    return Decision(
        event=Event.RESOLVE_FINISHED if finished else Event.RESOLVE_FAILED,
        reason=full_reason,
        changes={
            **ENDED_FIELDS,
            "result": result if finished else {"code": _RESOLVED_BY_OPERATOR, **result},
            # What proves a failure, such as a refund, is nothing to ask about or to cancel later.
            "provider_ref": job.provider_ref or (reference if finished else None),
            "last_error": None if finished else single_line(full_reason),
        },
    )


def needs_closing(job: Job, policy: RetryPolicy) -> bool:
    """Whether something may still be open at the provider, so that the job must not fail yet."""
    return policy.leaves_open and job.provider_ref is not None


def close_then_fail(job: Job, *, reason: str, reference: str | None, now: datetime) -> Decision:
    """A worker closes what is open; then, and only then, the job has failed as the person said."""
    full_reason = reason if reference is None else f"{reason} (reference {reference})"
    result = {**(job.result or {}), **({"reference": reference} if reference else {})}
    closing = {"reason": single_line(full_reason), "code": _RESOLVED_BY_OPERATOR, "result": result}
    return _reopen_decision(full_reason, now, event=Event.CLOSE_AND_FAIL, closing=closing)


def resolved_elsewhere(job: Job, outcome: EffectOutcome) -> bool:
    """Whether our rows were settled by something else than this job, such as a payment by hand."""
    own = job.result or {}
    return isinstance(outcome, Succeeded) and any(
        own.get(name) != value for name, value in outcome.result.items()
    )


def operator_resend(job: Job, policy: RetryPolicy, *, reason: str, now: datetime) -> Decision:
    """Another message for a ready row, because a person wants it."""
    resent = resend(job, policy, now)
    return Decision(event=resent.event, reason=reason, changes=resent.changes, alert=resent.alert)


def note(reason: str) -> Decision:
    """What a person did or heard, which moves nothing."""
    return Decision(event=Event.NOTE, reason=reason)


def note_resubmission(
    job: Job, policy: RetryPolicy, *, new_key: JobKey, reason: str, now: datetime
) -> Decision:
    """A new attempt runs only while this row says "failed", so the row must not expire before."""
    # Whole seconds, as a row keeps them.
    until = (now + policy.limits.max_age + MESSAGE_GRACE).replace(microsecond=0)
    kept = {} if job.expires_at is None else {"expires_at": max(job.expires_at, until)}
    return Decision(event=Event.NOTE, reason=f"tried again as {new_key}: {reason}", changes=kept)


def lookup_summary(job: Job) -> str:
    """What asking about a job came to, in a word or two."""
    match job.status:
        case Status.READY:
            return "nothing was done"
        case Status.STARTED:
            return "still under way"
        case Status.UNKNOWN:
            return "not known yet"
        case Status.FINISHED:
            return "succeeded"
        case Status.FAILED:
            return "refused"
        case Status.NEEDS_REVIEW:
            return "not as asked for"
        case unreachable:
            assert_never(unreachable)


def _reopen_decision(
    reason: str, now: datetime, *, event: Event = Event.REOPEN, **changes: object
) -> Decision:
    """All counts and the age begin anew: a person has looked."""
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
            return True, f"{provider} is asked now, and what it says is recorded"
        case Status.STARTED if job.lease_expired(now):
            return True, f"its worker is gone: {provider} is asked what became of it"
        case Status.STARTED:
            return False, f"a worker has it until {format_minute(job.lease_until or now)}"
        case Status.NEEDS_REVIEW if _can_look_up(policy):
            return True, f"{provider} is asked, and its answer is noted; you decide what follows"
        case Status.NEEDS_REVIEW:
            return False, f"{provider} cannot be asked what became of it"
        case Status.READY | Status.FINISHED | Status.FAILED:
            return False, _not_allowed_reason(job.status)
        case unreachable:
            assert_never(unreachable)


def _check_reopen(job: Job, policy: RetryPolicy) -> tuple[bool, str]:
    provider = policy.profile.name
    match job.status:
        case Status.NEEDS_REVIEW if not job.was_claimed:
            return True, "no worker ever took it, so nothing was done: it is run"
        case Status.NEEDS_REVIEW if policy.safety is RetrySafety.NATURAL:
            return True, "running it again does no harm: it is run again"
        case Status.NEEDS_REVIEW if _can_look_up(policy):
            return True, f"{provider} is asked first: it is run again only if nothing was done"
        case Status.NEEDS_REVIEW:
            return False, f"{provider} cannot be asked whether it was done: mark it instead"
        case Status.UNKNOWN:
            return False, "ask the provider: if nothing was done, it is ready again by itself"
        case Status.READY:
            return False, "it is ready already"
        case Status.STARTED | Status.FINISHED | Status.FAILED:
            return False, _not_allowed_reason(job.status)
        case unreachable:
            assert_never(unreachable)


def _check_mark_finished(job: Job, policy: RetryPolicy) -> tuple[bool, str]:
    if job.allows(Event.RESOLVE_FINISHED):
        return True, f"you have seen at {policy.profile.name} that it is done: our rows follow"
    return False, _not_allowed_reason(job.status)


def _check_mark_failed(job: Job, policy: RetryPolicy) -> tuple[bool, str]:
    if job.allows(Event.CLOSE_AND_FAIL) and needs_closing(job, policy):
        return True, (
            f"{policy.profile.name} is asked first: what is still open there is closed by a "
            "worker, and then the job has failed"
        )
    if job.allows(Event.RESOLVE_FAILED):
        return True, f"you have seen at {policy.profile.name} that it is not done: our rows follow"
    return False, _not_allowed_reason(job.status)


def _check_resend(job: Job, policy: RetryPolicy, now: datetime) -> tuple[bool, str]:
    if not job.allows(Event.RESEND):
        return False, "only a job that is ready is sent: " + _not_allowed_reason(job.status)
    if age_reason := job.past_max_age(policy.limits.max_age, now):
        return False, f"{age_reason}: the next sweep brings it to review, where it can be returned"
    return True, "its message is sent once more; a second one does no harm"


def _check_resubmit(job: Job, *, can_resubmit: bool) -> tuple[bool, str]:
    if job.status is not Status.FAILED:
        reason = _not_allowed_reason(job.status)
        return False, f"only a job that has failed can be tried anew: {reason}"
    if not can_resubmit:
        return False, "this kind of job has no second attempt: send a new one"
    return True, "a new job is sent; it runs only while this one stays failed"


def _check_unreadable_job(job: Job, policy: RetryPolicy | None, repair: Repair) -> tuple[bool, str]:
    cannot = "this deployment cannot read its message"
    # Of a type that nobody here knows, it may be open as well.
    may_be_open = job.provider_ref is not None and (policy is None or policy.leaves_open)
    match job.status:
        case Status.NEEDS_REVIEW if repair is Repair.MARK_FAILED and may_be_open:
            return False, (
                f"{job.provider_ref} may still be open at the provider, and {cannot}, so nobody "
                "can close it: deploy one that can"
            )
        case Status.NEEDS_REVIEW if repair in _OPERATOR_FINDINGS:
            return True, (
                f"you have seen outside that it is {_OPERATOR_FINDINGS[repair]}: the job is "
                f"closed, and our own rows are not changed, because {cannot}"
            )
        case Status.NEEDS_REVIEW:
            return False, f"{cannot}: deploy one that can, or mark it as done or as failed"
        case Status.FINISHED | Status.FAILED:
            return False, _not_allowed_reason(job.status)
        case Status.READY | Status.STARTED | Status.UNKNOWN:
            return False, f"{cannot}: the reconciler brings it to review when it falls due"
        case unreachable:
            assert_never(unreachable)


def _not_allowed_reason(status: Status) -> str:
    match status:
        case Status.READY:
            return "it waits for a worker, and nothing is open outside"
        case Status.STARTED:
            return "a worker has it, or had it: ask the provider when its time is over"
        case Status.UNKNOWN:
            return "its outcome is not known yet: ask the provider"
        case Status.FINISHED:
            return "it is done already"
        case Status.FAILED:
            return "it has failed already, and that is recorded"
        case Status.NEEDS_REVIEW:
            return "a person must look at it first"
        case unreachable:
            assert_never(unreachable)


def _can_look_up(policy: RetryPolicy) -> bool:
    asks = policy.safety in {RetrySafety.KEYED, RetrySafety.LOOKUP}
    return asks and policy.profile.lookup_lag is not None


_RESOLVED_BY_OPERATOR: Final = "ruled_by_a_person"

# What a person says that is true outside.
_OPERATOR_FINDINGS: Final[Mapping[Repair, str]] = MappingProxyType(
    {Repair.MARK_FINISHED: "done", Repair.MARK_FAILED: "not done"}
)
