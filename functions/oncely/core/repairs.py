"""Repairs: what an operator may do to a job, when, and the resulting decision."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from oncely.core.decide import (
    ENDED_FIELDS,
    MESSAGE_GRACE,
    absence_conclusive_at,
    needs_closing,
    next_key,
    return_to_ready,
)
from oncely.core.due import resend
from oncely.core.effect_outcomes import (
    Anomalous,
    Declined,
    Json,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    Pending,
    StillOpen,
    Succeeded,
)
from oncely.core.ended_jobs import expiry_time, holds_only_proof
from oncely.core.job_row import (
    CANCELLED_BY_OPERATOR,
    MARKED_BY_OPERATOR,
    RESOLVED_BY_OPERATOR,
    Decision,
    JobRow,
    new_job,
)
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.profiles import RetryPolicy, RetrySafety
from oncely.core.text import format_duration, format_minute, reason_line, single_line


def check_cancel(job: JobRow, policy: RetryPolicy) -> tuple[bool, str] | None:
    """Whether the job can be cancelled, and how. Returns None if its status forbids it."""
    if not job.allows(Event.CANCEL):
        return None
    if not job.was_claimed:
        return True, "ends it: no worker ever claimed it, so nothing was sent"
    if not job.allows(Event.CLOSE_AND_CANCEL):
        return False, "an earlier run may have done it: mark it as done or failed"
    if job.closing is not None:
        return False, "a worker closes what is open at the provider, then the job ends"
    if needs_closing(job, policy):
        provider = policy.profile.name
        return True, (
            f"a worker cancels {job.provider_ref} at {provider}, then the job ends. If it was done "
            "by then, the job is done"
        )
    if job.progress is not None or job.provider_ref is not None or _may_have_sent(job, policy):
        return False, "an earlier run may have done all or part of it: wait until it has ended"
    return True, "ends it: nothing was done at the provider"


def _may_have_sent(job: JobRow, policy: RetryPolicy) -> bool:
    """Whether an open send may have taken effect. A prepared effect cannot."""
    return job.first_sent_at is not None and not policy.leaves_open


def cancel(reason: str) -> Decision:
    """End a job that did nothing at the provider."""
    return Decision(
        event=Event.CANCEL,
        reason=reason,
        changes={
            **ENDED_FIELDS,
            "result": {"code": CANCELLED_BY_OPERATOR},
            "last_error": single_line(reason),
        },
    )


def close_then_cancel(reason: str, now: datetime) -> Decision:
    """Have a worker close what is open at the provider. Only then is the job cancelled."""
    closing = {"reason": single_line(reason), "code": CANCELLED_BY_OPERATOR, "result": {}}
    return return_to_ready(reason, now, {"closing": closing}, event=Event.CLOSE_AND_CANCEL)


def cancelled_job(
    key: JobKey, job_type: str, *, now: datetime, actor: str, reason: str, retention: timedelta
) -> JobRow:
    """The row of a job that is cancelled before its first message: later ones are duplicates."""
    row = new_job(
        key,
        job_type,
        {},
        now=now,
        due_at=None,
        actor=actor,
        reason=reason,
        event=Event.CANCEL,
    )
    result = {"code": CANCELLED_BY_OPERATOR}
    job = replace(row, result=result, last_error=reason_line(reason))
    return replace(job, expires_at=expiry_time(job, retention, now=now))


class Repair(StrEnum):
    """A change that an operator can make to one job. The page and the CLI use these values."""

    LOOK_UP = "lookup"  # look up the outcome at the provider now
    REOPEN = "reopen"  # back to ready, with proof that nothing was done
    MARK_FINISHED = "mark-finished"  # done at the provider
    MARK_FAILED = "mark-failed"  # not done at the provider, and never will be
    RESEND = "resend"  # for a ready job whose message is lost
    RUN_NOW = "run-now"  # for a job that waits for its run time
    RESCHEDULE = "reschedule"  # the same, with another time
    RESUBMIT = "resubmit"  # a new job after a definite failure
    CANCEL = "cancel"  # before anything is done at the provider

    @property
    def label(self) -> str:
        """The text of the button."""
        return _LABELS[self]


_LABELS: Final[Mapping[Repair, str]] = MappingProxyType(
    {
        Repair.LOOK_UP: "Look up the outcome",
        Repair.REOPEN: "Return to ready",
        Repair.MARK_FINISHED: "Mark as done",
        Repair.MARK_FAILED: "Mark as failed",
        Repair.RESEND: "Resend message",
        Repair.RUN_NOW: "Run now",
        Repair.RESCHEDULE: "Set another time",
        Repair.RESUBMIT: "Resubmit as a new job",
        Repair.CANCEL: "Cancel the job",
    }
)


@dataclass(frozen=True, kw_only=True)
class RepairOption:
    """Whether a repair is allowed now. `reason` says what it does, or why it is not allowed."""

    repair: Repair
    allowed: bool
    reason: str
    needs_reference: bool = False
    needs_time: bool = False


def repair_options(
    job: JobRow,
    policy: RetryPolicy,
    *,
    schedule_limit: timedelta,
    now: datetime,
    can_resubmit: bool = False,
) -> tuple[RepairOption, ...]:
    """All repairs, for the job as it is now."""
    return tuple(
        repair_option(
            job,
            policy,
            repair,
            schedule_limit=schedule_limit,
            now=now,
            can_resubmit=can_resubmit,
        )
        for repair in Repair
    )


def repair_option(
    job: JobRow,
    policy: RetryPolicy,
    repair: Repair,
    *,
    schedule_limit: timedelta,
    now: datetime,
    can_resubmit: bool = False,
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
            allowed, reason = _check_resend(job, policy, schedule_limit, now)
        case Repair.RUN_NOW | Repair.RESCHEDULE:
            allowed, reason = _check_reschedule(job, repair, schedule_limit, now)
        case Repair.RESUBMIT:
            allowed, reason = _check_resubmit(job, can_resubmit=can_resubmit)
        case Repair.CANCEL:
            checked = check_cancel(job, policy)
            allowed, reason = checked or (False, _not_allowed_reason(job.status))
        case unreachable:
            assert_never(unreachable)
    # If the provider cannot be asked, nothing can check it.
    needs_reference = repair is Repair.MARK_FINISHED and policy.can_look_up
    return RepairOption(
        repair=repair,
        allowed=allowed,
        reason=reason,
        needs_reference=needs_reference,
        needs_time=repair is Repair.RESCHEDULE,
    )


def unreadable_job_options(job: JobRow, policy: RetryPolicy | None) -> tuple[RepairOption, ...]:
    """All repairs of a job whose message cannot be read. `policy` is None for an unknown type."""
    return tuple(unreadable_job_option(job, policy, repair) for repair in Repair)


def unreadable_job_option(job: JobRow, policy: RetryPolicy | None, repair: Repair) -> RepairOption:
    """Return whether an operator may close such a job. Nothing else is known to be safe."""
    allowed, reason = _check_unreadable_job(job, policy, repair)
    asks = policy is not None and needs_closing(job, policy)
    needs_reference = asks and repair is Repair.MARK_FINISHED
    return RepairOption(
        repair=repair, allowed=allowed, reason=reason, needs_reference=needs_reference
    )


def reopen(
    job: JobRow,
    policy: RetryPolicy,
    *,
    reason: str,
    lookup: LookupOutcome | None,
    looked_up_at: datetime,
) -> Decision | str:
    """The decision to return to ready, or why there is no proof that nothing was done.

    `lookup` is None if the row itself is the proof.
    """
    match lookup:
        case None:
            return return_to_ready(reason, looked_up_at, {})
        case NotFound(unproved=True):
            return f"the lookup does not prove that nothing was done: {lookup.reason}"
        case NotFound(conclusive=proved) if proved or looked_up_at >= absence_conclusive_at(
            job, policy
        ):
            # A new idempotency key, if that is safe: the provider may replay the old one's error.
            full_reason = f"{reason}; {lookup.reason}"
            return return_to_ready(full_reason, looked_up_at, next_key(job, policy, lookup))
        case NotFound():
            retry_at = format_minute(absence_conclusive_at(job, policy))
            return f"{lookup.reason}, but a request may still be in flight: retry after {retry_at}"
        case answer:
            return f"the lookup does not prove that nothing was done: {answer.reason}"


def can_reopen_without_lookup(job: JobRow, policy: RetryPolicy) -> bool:
    """Whether the row alone proves that running it again is safe."""
    return policy.safety is RetrySafety.NATURAL or not job.was_claimed


def operator_resend(job: JobRow, policy: RetryPolicy, *, reason: str, now: datetime) -> Decision:
    """Resend the message of a ready job on an operator's request."""
    resent = resend(job, policy, now)
    return Decision(event=resent.event, reason=reason, changes=resent.changes, alert=resent.alert)


def note(reason: str) -> Decision:
    """Add evidence without changing the status."""
    return Decision(event=Event.NOTE, reason=reason)


def note_reference(reason: str, **found: str | None) -> Decision:
    """Save the reference that a search found, and what the row lost with it."""
    return Decision(event=Event.NOTE, reason=reason, changes=found)


def request_repair(repair: Repair, pending: Mapping[str, Json], *, reason: str) -> Decision:
    """Record what a second operator must confirm. It changes nothing else about the job."""
    reason = f"requested {repair}: {reason}"
    return Decision(event=Event.NOTE, reason=reason, changes={"pending_repair": pending})


def in_answer_to_request(decision: Decision, message: Mapping[str, Json] | None) -> Decision:
    """A repair, which confirms or voids an earlier request, with the operator's own message."""
    changed = {} if message is None else {"message": message}
    return replace(decision, changes={"pending_repair": None, **decision.changes, **changed})


def note_resubmission(
    job: JobRow, policy: RetryPolicy, *, new_key: JobKey, reason: str, now: datetime
) -> Decision:
    """Note the new job, and keep this row until then: the new job requires it to be failed."""
    # Rows store expiry in whole seconds.
    until = (now + policy.limits.max_age + MESSAGE_GRACE).replace(microsecond=0)
    kept = {} if job.expires_at is None else {"expires_at": max(job.expires_at, until)}
    return Decision(event=Event.NOTE, reason=f"resubmitted as {new_key}: {reason}", changes=kept)


def _check_look_up(job: JobRow, policy: RetryPolicy, now: datetime) -> tuple[bool, str]:
    provider = policy.profile.name
    match job.status:
        case Status.UNKNOWN if policy.safety is RetrySafety.AT_MOST_ONCE:
            return True, f"reads the events of {provider}, or moves it to review when none can come"
        case Status.UNKNOWN:
            return True, f"looks up the outcome at {provider} and records it"
        case Status.STARTED if not job.lease_expired(now):
            return False, f"a worker holds the lease until {format_minute(job.lease_until or now)}"
        case Status.STARTED if policy.safety is RetrySafety.AT_MOST_ONCE:
            return True, f"its worker's lease expired, and {provider} cannot be asked: ends the run"
        case Status.STARTED:
            return True, f"its worker's lease expired: looks up the outcome at {provider}"
        case Status.NEEDS_REVIEW if policy.can_look_up:
            return True, f"looks up the outcome at {provider} and notes it; you decide what follows"
        case Status.NEEDS_REVIEW:
            return False, f"{provider} has no lookup for this effect"
        case Status.FINISHED if policy.can_look_up and job.amount is not None:
            return True, f"looks up at {provider} whether it failed since: then it needs review"
        case Status.READY | Status.FINISHED | Status.FAILED | Status.CANCELLED:
            return False, _not_allowed_reason(job.status)
        case unreachable:
            assert_never(unreachable)


def _check_reopen(job: JobRow, policy: RetryPolicy) -> tuple[bool, str]:
    provider = policy.profile.name
    match job.status:
        case Status.NEEDS_REVIEW if not job.was_claimed:
            return True, "runs the job: no worker ever claimed it, so nothing was sent"
        case Status.NEEDS_REVIEW if policy.safety is RetrySafety.NATURAL:
            return True, "runs the job again, which is safe to repeat"
        case Status.NEEDS_REVIEW if policy.can_look_up:
            return (True, f"looks it up at {provider}, and runs it again only if nothing was done")
        case Status.NEEDS_REVIEW:
            return (False, f"{provider} has no lookup for this effect: mark it as done or failed")
        case Status.UNKNOWN if policy.safety is RetrySafety.AT_MOST_ONCE:
            return False, f"{provider} cannot be asked: it needs review first"
        case Status.UNKNOWN:
            return (False, "look it up: if nothing was done, it returns to ready automatically")
        case Status.READY:
            return False, "it is already ready"
        case Status.STARTED | Status.FINISHED | Status.FAILED | Status.CANCELLED:
            return False, _not_allowed_reason(job.status)
        case unreachable:
            assert_never(unreachable)


def _check_mark_finished(job: JobRow, policy: RetryPolicy) -> tuple[bool, str]:
    provider = policy.profile.name
    if not job.allows(Event.RESOLVE_FINISHED):
        return False, _not_allowed_reason(job.status)
    if not policy.can_look_up:
        return True, f"{provider} cannot be asked: marks it as done in your name, with your reason"
    return True, f"looks it up, and ends it only if {provider} confirms it: business rows follow"


def _check_mark_failed(job: JobRow, policy: RetryPolicy) -> tuple[bool, str]:
    provider = policy.profile.name
    if job.allows(Event.CLOSE_AND_FAIL) and needs_closing(job, policy):
        return True, (
            f"looks up the outcome at {provider}; a worker closes what is still open there, then "
            "the job fails"
        )
    if not job.allows(Event.RESOLVE_FAILED):
        return False, _not_allowed_reason(job.status)
    if job.proofs:
        return False, f"an event of {provider} proves that it was done: mark it as done"
    if not policy.can_look_up:
        return True, f"{provider} cannot be asked: marks it as failed in your name"
    return True, f"looks it up, and fails it only if {provider} did not do it"


def _check_resend(
    job: JobRow, policy: RetryPolicy, schedule_limit: timedelta, now: datetime
) -> tuple[bool, str]:
    if not job.allows(Event.RESEND):
        return False, "only a ready job can be resent: " + _not_allowed_reason(job.status)
    if job.run_at is not None and job.runs_later(now, schedule_limit):
        return False, f"it runs at {format_minute(job.run_at)}: its row sends the message then"
    if age_reason := job.past_max_age(policy.limits.max_age, now):
        return False, f"{age_reason}: the next sweep escalates it; then you can return it to ready"
    return True, "resends its message; duplicates are harmless"


def _check_reschedule(
    job: JobRow, repair: Repair, schedule_limit: timedelta, now: datetime
) -> tuple[bool, str]:
    if not job.allows(Event.RESCHEDULE):
        return False, f"only a ready job has a run time: {_not_allowed_reason(job.status)}"
    if job.closing is not None:
        return False, "a worker closes what is open at the provider, then the job ends"
    if job.run_at is None or not job.runs_later(now, schedule_limit):
        return False, "it does not wait for a run time"
    current = format_minute(job.run_at)
    if repair is Repair.RUN_NOW:
        return True, f"sends its message now, instead of at {current}"
    limit = format_duration(schedule_limit)
    return True, f"it runs at {current}: sets another time, at most {limit} ahead"


def _check_resubmit(job: JobRow, *, can_resubmit: bool) -> tuple[bool, str]:
    if not job.status.is_failed:
        reason = _not_allowed_reason(job.status)
        return False, f"only a failed job can be resubmitted: {reason}"
    if not can_resubmit:
        return False, "this job type cannot be resubmitted: send a new message"
    return True, "sends a new job, which runs only while this one stays failed"


def _check_unreadable_job(
    job: JobRow, policy: RetryPolicy | None, repair: Repair
) -> tuple[bool, str]:
    erased = holds_only_proof(job)
    cannot = "its message was erased" if erased else "this deployment cannot read its message"
    deploy = "" if erased else "deploy a version that can, or "
    # A job of an unknown type may have left something open.
    may_be_open = policy is None and job.provider_ref is not None
    match job.status:
        case Status.NEEDS_REVIEW if repair not in _OPERATOR_FINDINGS:
            return False, f"{cannot}: {deploy}mark it as done or failed"
        case Status.NEEDS_REVIEW if policy is not None and needs_closing(job, policy):
            return True, (
                f"looks up {job.provider_ref} at {policy.profile.name}; business rows are not "
                f"changed, because {cannot}"
            )
        case Status.NEEDS_REVIEW if repair is Repair.MARK_FAILED and may_be_open:
            return False, (
                f"{job.provider_ref} may still be open at the provider, and {cannot}, so no worker "
                "can close it: deploy a version that can"
            )
        case Status.NEEDS_REVIEW:
            return True, (
                f"you verified at the provider that it is {_OPERATOR_FINDINGS[repair]}; "
                f"business rows are not changed, because {cannot}"
            )
        case Status.FINISHED | Status.FAILED | Status.CANCELLED:
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
            return "its outcome is unknown"
        case Status.FINISHED:
            return "it is already done"
        case Status.FAILED:
            return "it has already failed"
        case Status.CANCELLED:
            return "it was cancelled"
        case Status.NEEDS_REVIEW:
            return "it needs review first"
        case unreachable:
            assert_never(unreachable)


# What the operator verified at the provider.
_OPERATOR_FINDINGS: Final[Mapping[Repair, str]] = MappingProxyType(
    {Repair.MARK_FINISHED: "done", Repair.MARK_FAILED: "not done"}
)


_WAIT: Final = "wait until the provider has decided, then try again"
_UNDO_FIRST: Final = "undo all of it at the provider first, or mark the job as done"


def objection_to_finished(
    outcome: LookupOutcome, *, reference: str | None, references: frozenset[str]
) -> str | None:
    """What to do instead of marking the job as done. Returns None if the provider confirms it.

    `references` are the ids by which the provider knows the effect that it found.
    """
    match outcome:
        case Succeeded() | Anomalous(effect_done=True) if (
            references and reference not in references
        ):
            return (
                f"the provider calls it {' or '.join(sorted(references))}: check which one you saw"
            )
        case Succeeded() | Anomalous(effect_done=True):
            return None
        case Anomalous():
            return "resolve that at the provider, or undo it there and mark the job as failed"
        case LookupFailed(unknown_reference=True):
            return (
                "check that our API key is of the right account. If it is, mark the job as failed: "
                "that searches for its own effect first"
            )
        case NotFound(unproved=True):
            return "correct the lookup and deploy it, then look up the job again"
        case Declined() | StillOpen() | NotFound():
            return "mark it as failed, or return it to ready"
        case Pending():
            return _WAIT
        case LookupFailed() | LookupUnsupported():
            return "try again"
        case unreachable:
            assert_never(unreachable)


def objection_to_failed(
    job: JobRow, policy: RetryPolicy, outcome: LookupOutcome, *, looked_up_at: datetime
) -> str | None:
    """What to do instead of marking the job as failed. Returns None if nothing contradicts it."""
    match outcome:
        case Declined():
            return None
        case NotFound(conclusive=True):
            return None
        case NotFound():
            proof_from = absence_conclusive_at(job, policy)
            if looked_up_at >= proof_from:
                return None
            return f"a request may still be in flight: try again after {format_minute(proof_from)}"
        case Succeeded() | Anomalous():
            return _UNDO_FIRST
        case StillOpen():
            return "a worker must close it first"
        case Pending():
            return _WAIT
        case LookupFailed() | LookupUnsupported():
            return "try again"
        case unreachable:
            assert_never(unreachable)


def objection_to_reference(reference: str | None, references: frozenset[str]) -> str | None:
    """What to do about a reference that is not this job's. Returns None if there is none."""
    if reference is None or reference in references:
        return None
    known = " or ".join(sorted(references)) or "none for this job"
    return f"the provider knows {known}: name that, or leave the reference out"


def resolve_manually(
    job: JobRow,
    repair: Repair,
    *,
    reason: str,
    reference: str | None,
    confirmed: LookupOutcome | None = None,
    answer: str = "",
) -> Decision:
    """End a job as the operator decided. `confirmed` is the provider's answer, if there is one.

    `answer` is the same in words, for the evidence. A finished job gets the result that the
    provider reports. If it was not asked, the code says so: see `JobRow.marked_by`.
    """
    finished = repair is Repair.MARK_FINISHED
    said = reason if reference is None else f"{reason} (reference {reference})"
    full_reason = "; ".join(filter(None, (said, answer)))
    own = dict(job.result or {})
    result = {**own, **({"reference": reference} if reference else {})}
    match confirmed:
        case Succeeded(ref=ref, result=found) | Anomalous(ref=ref, result=found) if finished:
            result, reference = dict(found) or own, ref
        case None | NotFound(unproved=True):
            result["code"] = MARKED_BY_OPERATOR
        case _:
            result = {"code": RESOLVED_BY_OPERATOR, **result}
    return Decision(
        event=Event.RESOLVE_FINISHED if finished else Event.RESOLVE_FAILED,
        reason=full_reason,
        changes={
            **ENDED_FIELDS,
            "result": result,
            # The proof of a failure, such as a refund, must not be looked up or canceled later.
            "provider_ref": job.provider_ref or (reference if finished else None),
            "last_error": None if finished else single_line(full_reason),
        },
    )


def resolved_elsewhere(own: Mapping[str, Json], outcome: LookupOutcome) -> bool:
    """Whether the business rows were changed by another payment, such as a manual one."""
    return isinstance(outcome, Succeeded) and any(
        own.get(name) != value for name, value in outcome.result.items()
    )
