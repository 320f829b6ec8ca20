"""Decides the next transition of a job from the outcome of its effect or lookup."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from oncely.domain.decisions import (
    ENDED_FIELDS,
    MAX_BACKOFF,
    MAX_REDELIVERY_DELAY,
    MAX_RETRY_AFTER,
    PENDING_RECHECK_INTERVAL,
    UNREACHABLE_BACKOFF,
    absence_conclusive_at,
    backoff,
    escalate,
    mark_unknown,
    recheck_at,
    requeue,
    retry_delay,
)
from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    IndefiniteOutcome,
    InProgress,
    LeaseExpired,
    LookupFailed,
    LookupUnsupported,
    NotFound,
    NotSent,
    Pending,
    StillOpen,
    Succeeded,
)
from oncely.domain.jobs import Decision, Job
from oncely.domain.lifecycle import Event
from oncely.domain.profiles import RetryPolicy, RetrySafety
from oncely.domain.text import single_line


def guard_before_effect(
    job: Job, policy: RetryPolicy, *, key_scope: str, now: datetime, deployment: str | None = None
) -> Decision | None:
    """Why the owner must not execute the effect. Returns None if it may."""
    if escalation := escalate_if_other_deployment(job, policy, deployment):
        return escalation
    # This claim is counted already: the last attempt allowed is `attempts`, not one less.
    if job.attempts > policy.limits.max_attempts:
        return escalate(f"{policy.limits.max_attempts} attempts were made without an outcome")
    if reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(reason)
    if job.closing is not None:
        return None  # closing is safe to repeat, and needs no key
    if job.has_ambiguous_send and not _can_resend(job, policy, key_scope=key_scope, now=now):
        return escalate("an earlier send is still open and its key is no longer safe")
    return None


def escalate_if_other_deployment(
    job: Job, policy: RetryPolicy, deployment: str | None
) -> Decision | None:
    """Escalate a row of another deployment, such as one of a copied table.

    The other deployment may run it as well, and one effect would then end two jobs. Only a natural
    effect may be repeated. Returns None if the row is ours.
    """
    if job.deployment == deployment or policy.safety is RetrySafety.NATURAL:
        return None
    return escalate("its row belongs to another deployment, which may run it as well")


def decide(
    job: Job,
    policy: RetryPolicy,
    outcome: EffectOutcome,
    *,
    now: datetime,
    key_scope: str = "",
    jitter: float = 0.0,
) -> Decision:
    """The decision for a job whose effect was attempted or looked up.

    `jitter` is drawn by the caller from [0, 1), so that many jobs do not retry at once.
    """
    match outcome:
        case Succeeded():
            return _finish(job, outcome)
        case Declined(code=code) if code in policy.limits.review_codes:
            return escalate(outcome.reason, result=outcome.result or None)
        case Declined():
            return _fail(job, outcome)
        case StillOpen() if job.allows(Event.RELEASE):
            return _close_later(job, outcome, now, jitter)
        case StillOpen():
            return _hand_over_to_close(job, policy, outcome, now)
        case Anomalous():
            return escalate(
                outcome.reason,
                provider_ref=outcome.ref or job.provider_ref,
                result=outcome.result or None,
            )
        case indefinite if job.allows(Event.RELEASE):
            return _after_effect(job, policy, indefinite, now, jitter)
        case indefinite:
            return _after_lookup(job, policy, indefinite, now, key_scope, jitter)


def _after_effect(
    job: Job, policy: RetryPolicy, outcome: IndefiniteOutcome, now: datetime, jitter: float
) -> Decision:
    match outcome:
        case NotSent():
            return _release_unsent(job, outcome, now, jitter)
        case InProgress():
            return _continue_later(job, outcome, now)
        case Pending() if policy.safety is RetrySafety.NATURAL:
            return requeue(Event.RELEASE, outcome.reason, run_at=now + PENDING_RECHECK_INTERVAL)
        case Pending():
            return mark_unknown(outcome.reason, now, due_at=now + PENDING_RECHECK_INTERVAL)
        case uncertain if policy.safety is RetrySafety.NATURAL:
            return _retry_natural(job, policy, uncertain, now, jitter)
        case LeaseExpired():
            # Keep the lease: the owner may have sent until its end.
            return Decision(
                event=Event.MARK_UNKNOWN,
                reason=outcome.reason,
                changes={"due_at": now, "last_error": single_line(outcome.reason)},
            )
        case Ambiguous() | NotFound() | LookupFailed() | LookupUnsupported():
            return mark_unknown(outcome.reason, now, due_at=now, timeouts=job.timeouts + 1)
        case unreachable:
            assert_never(unreachable)


def _after_lookup(  # noqa: PLR0917  # every one of them decides
    job: Job,
    policy: RetryPolicy,
    outcome: IndefiniteOutcome,
    now: datetime,
    key_scope: str,
    jitter: float,
) -> Decision:
    match outcome:
        case NotFound() if outcome.conclusive or now >= absence_conclusive_at(job, policy):
            return _requeue_within_limits(
                job, policy, outcome.reason, now, jitter, key_number=job.key_number + 1
            )
        case NotFound():
            return recheck_at(outcome.reason, due_at=absence_conclusive_at(job, policy))
        case LookupUnsupported():
            return _on_lookup_unsupported(job, policy, outcome, now, key_scope, jitter)
        case unresolved if reason := job.past_max_age(policy.limits.max_age, now):
            return escalate(f"{reason}; the last lookup: {unresolved.reason}")
        case Pending():
            return recheck_at(outcome.reason, due_at=now + PENDING_RECHECK_INTERVAL, unreachable=0)
        case LookupFailed(retry_after=timedelta() as retry_after):
            delay = _retry_after_delay(retry_after, jitter)
            return recheck_at(outcome.reason, due_at=now + delay, **_add_paused_seconds(job, delay))
        case LookupFailed() | NotSent() | Ambiguous() | InProgress() | LeaseExpired():
            times = job.unreachable + 1
            delay = backoff(UNREACHABLE_BACKOFF, times, jitter=jitter, max_delay=MAX_BACKOFF)
            return recheck_at(outcome.reason, due_at=now + delay, unreachable=times)
        case unreachable:
            assert_never(unreachable)


def _on_lookup_unsupported(  # noqa: PLR0917  # every one of them decides
    job: Job,
    policy: RetryPolicy,
    outcome: LookupUnsupported,
    now: datetime,
    key_scope: str,
    jitter: float,
) -> Decision:
    if now < absence_conclusive_at(job, policy):
        # Operators want to read what went wrong, not that lookups are unsupported.
        due_at = absence_conclusive_at(job, policy)
        return recheck_at(outcome.reason, due_at=due_at, last_error=job.last_error)
    if policy.safety is RetrySafety.NATURAL:
        return _requeue_within_limits(
            job, policy, "safe to run again", now, jitter, key_number=job.key_number
        )
    if _can_resend(job, policy, key_scope=key_scope, now=now):
        reason = "resent under the same key, which the provider still remembers"
        return _requeue_within_limits(job, policy, reason, now, jitter, key_number=job.key_number)
    return escalate(f"it may have happened: {job.last_error or 'no response'}; {outcome.reason}")


def _can_resend(job: Job, policy: RetryPolicy, *, key_scope: str, now: datetime) -> bool:
    if policy.safety is RetrySafety.NATURAL:
        return True
    window = policy.profile.key_ttl
    if policy.safety is not RetrySafety.KEYED or window is None or job.first_sent_at is None:
        return False
    safe_until = job.first_sent_at + window - policy.profile.key_ttl_margin
    return job.key_scope == key_scope and now + policy.profile.max_run_time < safe_until


def _release_unsent(job: Job, outcome: NotSent, now: datetime, jitter: float) -> Decision:
    """Nothing was sent, so give the attempt and the key's first use back."""
    times = job.unreachable + 1
    changes: dict[str, object] = {"attempts": job.attempts - 1, "unreachable": times}
    if outcome.retry_after is None:
        delay = backoff(UNREACHABLE_BACKOFF, times, jitter=jitter, max_delay=MAX_BACKOFF)
    else:
        delay = _retry_after_delay(outcome.retry_after, jitter)
        changes |= _add_paused_seconds(job, delay)
    if not job.has_ambiguous_send:
        changes |= {"first_sent_at": None, "key_scope": None}
    row_resends = delay > MAX_REDELIVERY_DELAY
    if row_resends:
        changes["due_at"] = now + delay
    released = requeue(Event.RELEASE, outcome.reason, run_at=now + delay, **changes)
    return replace(
        released, credentials_rejected=outcome.credentials_rejected, resend_when_due=row_resends
    )


def _retry_after_delay(retry_after: timedelta, jitter: float) -> timedelta:
    """The wait that the provider asks for, with jitter if many jobs would resume together."""
    delay = min(retry_after, MAX_RETRY_AFTER)
    return delay + MAX_BACKOFF * jitter if delay > MAX_REDELIVERY_DELAY else delay


def _add_paused_seconds(job: Job, delay: timedelta) -> dict[str, object]:
    """A wait that the provider asks for does not count as age."""
    return {"paused_seconds": job.paused_seconds + math.ceil(delay.total_seconds())}


def _close_later(job: Job, outcome: StillOpen, now: datetime, jitter: float) -> Decision:
    """This run could not close what was declined. The next run only closes it."""
    times = job.unreachable + 1
    delay = backoff(UNREACHABLE_BACKOFF, times, jitter=jitter, max_delay=MAX_BACKOFF)
    released = requeue(
        Event.RELEASE,
        _still_open_reason(outcome),
        run_at=now + delay,
        unreachable=times,
        **_closing_fields(outcome),
    )
    return replace(
        released,
        credentials_rejected=outcome.close_failure is not None
        and outcome.close_failure.credentials_rejected,
    )


def _hand_over_to_close(
    job: Job, policy: RetryPolicy, outcome: StillOpen, now: datetime
) -> Decision:
    """The reconciler only reads, so a worker closes it before the job fails."""
    if job.attempts >= policy.limits.max_attempts:
        return escalate(f"{job.attempts} attempts were made; now: {_still_open_reason(outcome)}")
    if age_reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(f"{age_reason}; now: {_still_open_reason(outcome)}")
    return requeue(
        Event.REQUEUE,
        _still_open_reason(outcome),
        run_at=now,
        unreachable=0,
        **_closing_fields(outcome),
    )


def _still_open_reason(outcome: StillOpen) -> str:
    return f"{outcome.reason}; still open at the provider"


def _continue_later(job: Job, outcome: InProgress, now: datetime) -> Decision:
    """Progress is saved, so give the attempt back and continue with a new message."""
    released = requeue(
        Event.RELEASE,
        outcome.reason,
        run_at=now,
        attempts=job.attempts - 1,
        first_sent_at=None,  # everything sent so far is part of the progress
        key_scope=None,
        last_error=None,
    )
    return replace(released, send_new_message=True)


def _retry_natural(
    job: Job, policy: RetryPolicy, outcome: IndefiniteOutcome, now: datetime, jitter: float
) -> Decision:
    """Run a natural effect again instead of looking it up."""
    timeouts = job.timeouts + isinstance(outcome, Ambiguous)
    if timeouts >= policy.limits.max_consecutive_timeouts:
        return escalate(f"{timeouts} timeouts in a row; the last: {outcome.reason}")
    delay = retry_delay(timeouts, jitter)
    return requeue(Event.RELEASE, outcome.reason, run_at=now + delay, timeouts=timeouts)


def _requeue_within_limits(
    job: Job, policy: RetryPolicy, reason: str, now: datetime, jitter: float, *, key_number: int
) -> Decision:
    """Requeue, unless a limit is reached."""
    if policy.safety is RetrySafety.AT_MOST_ONCE:
        return escalate(f"it may have happened: {job.last_error or 'no response'}; now: {reason}")
    if job.timeouts >= policy.limits.max_consecutive_timeouts:
        return escalate(f"{job.timeouts} timeouts in a row; now: {reason}")
    if job.attempts >= policy.limits.max_attempts:
        return escalate(f"{job.attempts} attempts were made; now: {reason}")
    if age_reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(f"{age_reason}; now: {reason}")
    changes: dict[str, object] = {"unreachable": 0}
    if key_number != job.key_number:
        changes |= {"key_number": key_number, "first_sent_at": None, "key_scope": None}
    delay = retry_delay(job.timeouts, jitter)
    if delay:
        # Longer than SQS can delay a message, so the row resends it when due.
        changes["due_at"] = now + delay
    return requeue(Event.REQUEUE, reason, run_at=now + delay, **changes)


def _finish(job: Job, outcome: Succeeded) -> Decision:
    """Mark the job finished, with its result."""
    return Decision(
        event=Event.CONFIRM,
        reason=outcome.reason,
        changes={
            "provider_ref": outcome.ref or job.provider_ref,
            "result": dict(outcome.result),
            **ENDED_FIELDS,
            "last_error": None,
        },
    )


def _fail(job: Job, outcome: Declined) -> Decision:
    """Mark the job failed because the provider declined, or because it was closed."""
    closing: Mapping[str, Any] = job.closing or {}
    reason = f"{closing['reason']}; {outcome.reason}" if closing else outcome.reason
    result = {
        "code": closing.get("code", outcome.code),
        **closing.get("result", {}),
        **outcome.result,
    }
    return Decision(
        event=Event.DECLINE,
        reason=reason,
        changes={"result": result, **ENDED_FIELDS, "last_error": single_line(reason)},
    )


def _closing_fields(outcome: StillOpen) -> dict[str, object]:
    """What the row keeps of a decline until what was prepared is closed."""
    closing = {
        "reason": single_line(outcome.reason),
        "code": outcome.code,
        "result": dict(outcome.result),
    }
    return {"closing": closing}
