"""Closing what a job prepared at the provider: only then does it fail, or count as cancelled."""

from collections.abc import Mapping
from datetime import datetime

from oncely.core.decisions import (
    MAX_BACKOFF,
    UNREACHABLE_BACKOFF,
    backoff,
    escalate,
    requeue,
)
from oncely.core.effect_outcomes import StillOpen
from oncely.core.job_row import RESOLVED_BY_OPERATOR, Decision, JobRow
from oncely.core.lifecycle import Event, WaitKind
from oncely.core.profiles import RetryPolicy
from oncely.core.text import single_line


def needs_closing(job: JobRow, policy: RetryPolicy) -> bool:
    """Whether something may still be open at the provider, so that the job must not fail yet."""
    return policy.leaves_open and job.provider_ref is not None


def close_then_fail(job: JobRow, *, reason: str, reference: str | None, now: datetime) -> Decision:
    """Have a worker close what is open at the provider. Only then does the job fail."""
    full_reason = reason if reference is None else f"{reason} (reference {reference})"
    result = {**(job.result or {}), **({"reference": reference} if reference else {})}
    closing = {"reason": single_line(full_reason), "code": RESOLVED_BY_OPERATOR, "result": result}
    return return_to_ready(full_reason, now, {"closing": closing}, event=Event.CLOSE_AND_FAIL)


def return_to_ready(
    reason: str, now: datetime, changes: Mapping[str, object], *, event: Event = Event.REOPEN
) -> Decision:
    """Have a worker run the job. An operator decided, so all counters and the age restart."""
    return requeue(
        event,
        reason,
        run_at=now,
        attempts=0,
        timeouts=0,
        unreachable=0,
        age_from=now,
        waits_for=None,
        **{"closing": None, **changes},
    )


def close_later(job: JobRow, outcome: StillOpen, now: datetime, jitter: float) -> Decision:
    """Return the job to ready: the next run only closes what this run could not close."""
    times = job.unreachable + 1
    delay = backoff(UNREACHABLE_BACKOFF, times, jitter=jitter, max_delay=MAX_BACKOFF)
    is_rejected = outcome.close_failure is not None and outcome.close_failure.credentials_rejected
    return requeue(
        Event.RELEASE,
        _still_open_reason(outcome),
        run_at=now + delay,
        unreachable=times,
        waits_for=WaitKind.SECRET if is_rejected else None,
        **_closing_fields(job, outcome),
    )


def hand_over_to_close(
    job: JobRow, policy: RetryPolicy, outcome: StillOpen, now: datetime
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
        **_closing_fields(job, outcome),
    )


def _still_open_reason(outcome: StillOpen) -> str:
    return f"{outcome.reason}; still open at the provider"


def _closing_fields(job: JobRow, outcome: StillOpen) -> dict[str, object]:
    """The decline as the row keeps it until the prepared effect is closed.

    An operator's decision stays: a cancelled job must not end as declined.
    """
    closing = job.closing or {
        "reason": single_line(outcome.reason),
        "code": outcome.code,
        "result": dict(outcome.result),
    }
    return {"closing": closing}
