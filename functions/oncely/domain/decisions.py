"""The decisions that rules build on: which fields each changes, and how long each waits."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, assert_never

from oncely.domain.effect_outcomes import Declined, Json, Succeeded
from oncely.domain.jobs import Decision, Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import RetryPolicy, RetrySafety
from oncely.domain.text import single_line

# A message is processed within this time; after that, the row counts as having lost it.
MESSAGE_GRACE: Final = timedelta(minutes=15)
# Waits of 4, 8, 16 and 32 minutes spread five timeouts over an hour.
TIMEOUT_BACKOFF: Final = timedelta(minutes=4)
UNREACHABLE_BACKOFF: Final = timedelta(seconds=15)
MAX_BACKOFF: Final = timedelta(minutes=15)
# The longest rate limits of providers are daily.
MAX_RETRY_AFTER: Final = timedelta(hours=24)
# A redelivery costs one of the few receives, so the row takes longer waits over.
MAX_REDELIVERY_DELAY: Final = timedelta(hours=1)
PENDING_RECHECK_INTERVAL: Final = timedelta(minutes=1)
# How long a sweep has a row to itself: the slowest response of a provider, and the write.
SWEEP_HOLD: Final = timedelta(minutes=2)
# How long sending an alert may take: three attempts at SNS, and clock skew.
ALERT_TIMEOUT: Final = timedelta(seconds=30)
# A dead letter is resent after this time; a bad deployment is rolled back by then.
DEAD_LETTER_RETRY_DELAY: Final = timedelta(minutes=30)
# A shorter outage of ours must not send every job to review.
DEAD_LETTER_ESCALATION_AFTER: Final = timedelta(hours=6)


# What every end changes. Nothing is sent any more, so the lease and the key window are over.
ENDED_FIELDS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "timeouts": 0,
        "unreachable": 0,
        "paused_seconds": 0,
        "closing": None,
        "lease_until": None,
        "first_sent_at": None,
    }
)


def requeue(event: Event, reason: str, *, run_at: datetime, **changes: object) -> Decision:
    """Make the row claimable again from `run_at` on."""
    return Decision(
        event=event,
        reason=reason,
        changes={
            "lease_until": None,
            "due_at": run_at + MESSAGE_GRACE,
            "last_error": single_line(reason),
            **changes,
        },
        run_at=run_at,
    )


def mark_unknown(reason: str, now: datetime, *, due_at: datetime, **changes: object) -> Decision:
    """Mark the job unknown. The owner sends nothing more, so its lease ends now."""
    return Decision(
        event=Event.MARK_UNKNOWN,
        reason=reason,
        changes={
            "lease_until": now,
            "due_at": due_at,
            "last_error": single_line(reason),
            **changes,
        },
    )


def recheck_at(reason: str, *, due_at: datetime, **changes: object) -> Decision:
    """Look up again later."""
    return Decision(
        event=Event.RECHECK,
        reason=reason,
        changes={"due_at": due_at, "last_error": single_line(reason), **changes},
    )


def escalate(reason: str, **changes: object) -> Decision:
    """Send the job to review: an operator decides, and it never expires."""
    kept = {name: value for name, value in changes.items() if value is not None}
    return Decision(
        event=Event.ESCALATE,
        reason=reason,
        changes={"expires_at": None, "last_error": single_line(reason), **kept},
        alert=True,
    )


def backoff(first: timedelta, times: int, *, jitter: float, max_delay: timedelta) -> timedelta:
    """Exponential backoff with up to 25 % jitter."""
    # 2**20 exceeds every limit in use; more would overflow.
    doubled: timedelta = first * 2 ** min(max(times - 1, 0), 20)
    return min(doubled, max_delay) * (1 + jitter / 4)


def retry_delay(timeouts: int, jitter: float) -> timedelta:
    """No delay after a crash. Timeouts are spread over an hour."""
    if timeouts == 0:
        return timedelta(0)
    return backoff(TIMEOUT_BACKOFF, timeouts, jitter=jitter, max_delay=timedelta(hours=2))


def on_late_outcome(row: Job, outcome: Succeeded | Declined, *, fence: int) -> Decision:
    """Keep the definite outcome of a worker that lost its job, or escalate a contradiction."""
    reason = f"a late worker (claim {fence}) reports: {outcome.reason}"
    if _contradicts(row, outcome):
        return Decision(
            event=Event.CONTRADICT,
            reason=reason,
            changes={"expires_at": None, "last_error": single_line(reason)},
            alert=True,
        )
    return Decision(event=Event.NOTE, reason=reason)


def save_progress(progress: Mapping[str, Json]) -> Decision:
    """Save a long job's progress. Only attempts since then count."""
    return Decision(
        event=Event.CHECKPOINT,
        reason="progress saved",
        changes={"progress": dict(progress), "attempts": 1, "timeouts": 0, "unreachable": 0},
    )


def save_reference(ref: str) -> Decision:
    """Save the provider reference before it is used."""
    return Decision(event=Event.CHECKPOINT, reason=f"prepared {ref}", changes={"provider_ref": ref})


def restore_reference(ref: str) -> Decision:
    """Save the reference of an earlier run that the row lost in a restore."""
    return Decision(
        event=Event.CHECKPOINT,
        reason=f"the row was restored without its reference; {ref} was found at the provider",
        changes={"provider_ref": ref},
    )


def on_business_conflict(
    job: Job, policy: RetryPolicy | None, intended: Decision, *, reason: str, now: datetime
) -> Decision:
    """The effect happened, but a business write failed: retry if that is safe, else escalate."""
    if (
        policy
        and policy.safety is RetrySafety.NATURAL
        and job.attempts < policy.limits.max_attempts
    ):
        # Another writer changed the row first. The next run decides by what it reads then.
        event = Event.RELEASE if job.allows(Event.RELEASE) else Event.REQUEUE
        return requeue(event, f"the business rows changed: {reason}", run_at=now)
    if policy and policy.tolerates_row_changes and job.allows(Event.MARK_UNKNOWN):
        return mark_unknown(f"the business rows changed: {reason}", now, due_at=now)
    # Rows that conflict until the age limit still go to an operator.
    if (
        policy
        and policy.tolerates_row_changes
        and job.allows(Event.RECHECK)
        and not job.past_max_age(policy.limits.max_age, now)
    ):
        return recheck_at(f"the business rows changed: {reason}", due_at=now)
    kept = {
        name: intended.changes[name]
        for name in ("provider_ref", "result")
        if name in intended.changes
    }
    return escalate(f"{intended.reason}, but a business write failed: {reason}", **kept)


def absence_conclusive_at(job: Job, policy: RetryPolicy) -> datetime:
    """From when a lookup that finds nothing proves absence: every possible send is over."""
    last_send = job.lease_until or job.updated_at
    lag = policy.profile.lookup_lag or timedelta(0)
    return last_send + policy.profile.request_timeout + lag


def _contradicts(row: Job, outcome: Succeeded | Declined) -> bool:
    match row.status:
        case Status.FINISHED:
            # The reference identifies the effect; other fields may differ between responses.
            return isinstance(outcome, Declined) or outcome.ref not in {None, row.provider_ref}
        case Status.FAILED:
            return isinstance(outcome, Succeeded)
        case Status.READY | Status.STARTED | Status.UNKNOWN | Status.NEEDS_REVIEW:
            return False
        case unreachable:
            assert_never(unreachable)
