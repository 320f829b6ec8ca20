"""Decides the next transition of a job from the outcome of its effect or lookup."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, assert_never

from oncely.core.claims import Claim
from oncely.core.closing import close_later, hand_over_to_close
from oncely.core.decisions import (
    ENDED_FIELDS,
    MAX_BACKOFF,
    MAX_REDELIVERY_DELAY,
    MAX_RETRY_AFTER,
    PENDING_RECHECK_INTERVAL,
    UNREACHABLE_BACKOFF,
    absence_conclusive_at,
    backoff,
    continue_later,
    escalate,
    exclude_from_age,
    fail,
    keeps_key,
    mark_unknown,
    next_key,
    recheck_at,
    recheck_pending,
    requeue,
    retry_delay,
)
from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    InProgress,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    NotSent,
    Pending,
    StillOpen,
    Succeeded,
)
from oncely.core.job_row import Decision, JobRow
from oncely.core.lifecycle import Event, WaitKind
from oncely.core.profiles import RetryPolicy, RetrySafety

_UNANSWERED: Final = "but an earlier request had no answer, and its key is no longer safe"


def guard_before_effect(
    job: JobRow,
    policy: RetryPolicy,
    claim: Claim,
    *,
    now: datetime,
    held_time: Callable[[], timedelta] = timedelta,
) -> Decision | None:
    """Why the owner must not perform the effect. Returns None if it may.

    `held_time` is how long the gate held the job, which does not count as age.
    """
    if escalation := escalate_if_other_deployment(job, policy, claim.deployment):
        return escalation
    if job.provider != claim.provider:
        names = f"its row names the provider {job.provider}, its business rows {claim.provider}"
        return escalate(names)
    if any(event.proves for event in job.provider_events):
        return escalate("a provider event proves that an earlier claim sent it")
    # This claim is already counted, so the last allowed attempt is `attempts`, not one less.
    if job.attempts > policy.limits.max_attempts:
        return escalate(f"{policy.limits.max_attempts} attempts were made without an outcome")
    max_age = policy.limits.max_age
    if job.past_max_age(max_age, now) and (reason := job.past_max_age(max_age + held_time(), now)):
        return escalate(reason)
    if job.closing is not None:
        return None  # closing is safe to repeat, and needs no key
    if job.has_ambiguous_send and not _can_resend(job, policy, key_scope=claim.key_scope, now=now):
        return escalate("an earlier send is still open and its key is no longer safe")
    return None


def escalate_if_other_deployment(
    job: JobRow, policy: RetryPolicy, deployment: str | None
) -> Decision | None:
    """Escalate a row of another deployment, such as one of a copied table.

    The other deployment may run it as well, and one effect would then end two jobs. Only a natural
    effect may be repeated. Returns None if the row is ours.
    """
    if job.deployment == deployment or policy.safety is RetrySafety.NATURAL:
        return None
    return escalate("its row belongs to another deployment, which may run it as well")


def decide_effect(
    job: JobRow, policy: RetryPolicy, outcome: EffectOutcome, *, now: datetime, jitter: float = 0.0
) -> Decision:
    """The decision of the owner, whose effect was performed or attempted.

    `jitter` is drawn by the caller from [0, 1), so that many jobs do not retry at once.
    """
    decision = _after_effect(job, policy, outcome, now, jitter)
    if decision.event is Event.ESCALATE and job.proofs:
        # An event came after the claim: the lookup reads it, and may not need an operator.
        return mark_unknown(decision.reason, now, due_at=now)
    return decision


def _after_effect(
    job: JobRow, policy: RetryPolicy, outcome: EffectOutcome, now: datetime, jitter: float
) -> Decision:
    match outcome:
        case Succeeded() | Declined() | Anomalous():
            return _on_definite(job, outcome)
        case StillOpen():
            return close_later(job, outcome, now, jitter)
        case NotSent():
            return _release_unsent(job, outcome, now, jitter)
        case InProgress():
            return continue_later(job, outcome, now)
        case Pending() if policy.safety is RetrySafety.NATURAL:
            return requeue(Event.RELEASE, outcome.reason, run_at=now + PENDING_RECHECK_INTERVAL)
        case Pending():
            delay = PENDING_RECHECK_INTERVAL
            pause = exclude_from_age(job, delay, now)
            return mark_unknown(outcome.reason, now, due_at=now + delay, **pause)
        case Ambiguous() if policy.safety is RetrySafety.NATURAL:
            return _retry_natural(policy, outcome.reason, job.timeouts + 1, now, jitter)
        case Ambiguous(replayed=replayed):
            answered = {"key_answered": True} if replayed else {}
            timeouts = job.timeouts + 1
            return mark_unknown(outcome.reason, now, due_at=now, timeouts=timeouts, **answered)
        case unreachable:
            assert_never(unreachable)


def on_lease_expired(
    job: JobRow, policy: RetryPolicy, *, now: datetime, jitter: float = 0.0
) -> Decision:
    """The decision about a job whose owner is certainly gone, and recorded nothing."""
    reason = "the lease expired before the worker recorded an outcome"
    if policy.safety is RetrySafety.NATURAL:
        return _retry_natural(policy, reason, job.timeouts, now, jitter)
    # Keep the lease: the owner may have sent until its end.
    changes = {"due_at": now, "last_error": reason}
    return Decision(event=Event.MARK_UNKNOWN, reason=reason, changes=changes)


def decide_lookup(
    job: JobRow,
    policy: RetryPolicy,
    outcome: LookupOutcome,
    *,
    now: datetime,
    key_scope: str = "",
    jitter: float = 0.0,
) -> Decision:
    """The decision for a job whose outcome was not known, and was looked up."""
    match outcome:
        case Succeeded() | Declined() | Anomalous():
            return _on_definite(job, outcome)
        case StillOpen():
            return hand_over_to_close(job, policy, outcome, now)
        case NotFound():
            return _on_not_found(job, policy, outcome, now, key_scope, jitter)
        case LookupUnsupported():
            return _on_lookup_unsupported(job, policy, outcome, now, key_scope, jitter)
        case Pending():
            return recheck_pending(job, policy, outcome, now, jitter)
        case LookupFailed():
            return _on_lookup_failed(job, policy, outcome, now, jitter)
        case unreachable:
            assert_never(unreachable)


def _on_definite(job: JobRow, outcome: Succeeded | Declined | Anomalous) -> Decision:
    match outcome:
        case Succeeded():
            return _finish(job, outcome)
        case Declined():
            return fail(job, outcome)
        case Anomalous(ref=ref):
            ref = ref or job.provider_ref
            return escalate(outcome.reason, provider_ref=ref, result=outcome.result or None)
        case unreachable:
            assert_never(unreachable)


def _on_not_found(  # noqa: PLR0917  # every one of them decides
    job: JobRow,
    policy: RetryPolicy,
    outcome: NotFound,
    now: datetime,
    key_scope: str,
    jitter: float,
) -> Decision:
    conclusive_at = absence_conclusive_at(job, policy)
    if not outcome.conclusive and now < conclusive_at:
        return recheck_at(outcome.reason, due_at=conclusive_at)
    safe = _can_resend(job, policy, key_scope=key_scope, now=now)
    if keeps_key(job, policy, outcome) and not safe:
        return escalate(f"{outcome.reason}; {_UNANSWERED}")
    key = next_key(job, policy, outcome)
    return _requeue_within_limits(job, policy, outcome.reason, now, jitter, **key)


def _on_lookup_failed(
    job: JobRow, policy: RetryPolicy, outcome: LookupFailed, now: datetime, jitter: float
) -> Decision:
    if reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(f"{reason}; the last lookup: {outcome.reason}")
    if outcome.retry_after is not None:
        delay = _retry_after_delay(outcome.retry_after, jitter)
        pause = exclude_from_age(job, delay, now)
        return recheck_at(outcome.reason, due_at=now + delay, **pause)
    times = job.unreachable + 1
    delay = backoff(UNREACHABLE_BACKOFF, times, jitter=jitter, max_delay=MAX_BACKOFF)
    return recheck_at(outcome.reason, due_at=now + delay, unreachable=times)


def _on_lookup_unsupported(  # noqa: PLR0917  # every one of them decides
    job: JobRow,
    policy: RetryPolicy,
    outcome: LookupUnsupported,
    now: datetime,
    key_scope: str,
    jitter: float,
) -> Decision:
    due_at = absence_conclusive_at(job, policy) + outcome.event_wait
    if now < due_at:
        # Operators need to read what went wrong, not that there is no lookup.
        return recheck_at(outcome.reason, due_at=due_at, last_error=job.last_error)
    if policy.safety is RetrySafety.NATURAL:
        return _requeue_within_limits(job, policy, "safe to run again", now, jitter)
    if _can_resend(job, policy, key_scope=key_scope, now=now):
        reason = "resent under the same key, which the provider still remembers"
        return _requeue_within_limits(job, policy, reason, now, jitter)
    return escalate(f"it may have happened: {job.last_error or 'no response'}; {outcome.reason}")


def _can_resend(job: JobRow, policy: RetryPolicy, *, key_scope: str, now: datetime) -> bool:
    if policy.safety is RetrySafety.NATURAL:
        return True
    window = policy.profile.key_ttl
    if policy.safety is not RetrySafety.KEYED or window is None or job.first_sent_at is None:
        return False
    safe_until = job.first_sent_at + window - policy.profile.key_ttl_margin
    return job.key_scope == key_scope and now + policy.profile.max_run_time < safe_until


def _release_unsent(job: JobRow, outcome: NotSent, now: datetime, jitter: float) -> Decision:
    """Nothing was sent, so return the attempt and the key's first use."""
    times = job.unreachable + (outcome.held_until is None)
    changes: dict[str, object] = {"attempts": job.attempts - 1, "unreachable": times}
    if outcome.held_until is not None:
        delay = max(outcome.held_until - now, timedelta(0))
    elif outcome.retry_after is None:
        delay = backoff(UNREACHABLE_BACKOFF, times, jitter=jitter, max_delay=MAX_BACKOFF)
    else:
        delay = _retry_after_delay(outcome.retry_after, jitter)
        changes |= exclude_from_age(job, delay, now)
    if not job.has_ambiguous_send:
        changes |= {"first_sent_at": None, "key_scope": None}
    if delay > MAX_REDELIVERY_DELAY or outcome.held_until is not None:
        changes["due_at"] = now + delay  # the row resends the message
    if outcome.held_until is not None:
        changes["waits_for"] = WaitKind.GATE
    elif outcome.credentials_rejected:
        changes["waits_for"] = WaitKind.SECRET
    return requeue(Event.RELEASE, outcome.reason, run_at=now + delay, **changes)


def _retry_after_delay(retry_after: timedelta, jitter: float) -> timedelta:
    """The wait that the provider asks for, with jitter if many jobs would resume together."""
    delay = min(retry_after, MAX_RETRY_AFTER)
    return delay + MAX_BACKOFF * jitter if delay > MAX_REDELIVERY_DELAY else delay


def _retry_natural(
    policy: RetryPolicy, reason: str, timeouts: int, now: datetime, jitter: float
) -> Decision:
    """Run a natural effect again instead of looking it up."""
    if timeouts >= policy.limits.max_consecutive_timeouts:
        return escalate(f"{timeouts} timeouts in a row; the last: {reason}")
    delay = retry_delay(timeouts, jitter)
    return requeue(Event.RELEASE, reason, run_at=now + delay, timeouts=timeouts)


def _requeue_within_limits(
    job: JobRow, policy: RetryPolicy, reason: str, now: datetime, jitter: float, **key: object
) -> Decision:
    """Requeue, unless a limit is reached. `key` has the fields of a new key."""
    if policy.safety is RetrySafety.AT_MOST_ONCE:
        return escalate(f"it may have happened: {job.last_error or 'no response'}; now: {reason}")
    if job.timeouts >= policy.limits.max_consecutive_timeouts:
        return escalate(f"{job.timeouts} timeouts in a row; now: {reason}")
    if job.attempts >= policy.limits.max_attempts:
        return escalate(f"{job.attempts} attempts were made; now: {reason}")
    if age_reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(f"{age_reason}; now: {reason}")
    changes: dict[str, object] = {"unreachable": 0, **key}
    delay = retry_delay(job.timeouts, jitter)
    if delay:
        # Longer than SQS can delay a message, so the row resends it when due.
        changes["due_at"] = now + delay
    return requeue(Event.REQUEUE, reason, run_at=now + delay, **changes)


def _finish(job: JobRow, outcome: Succeeded) -> Decision:
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
