"""The moves that a decision can make: which fields each changes, and how long each waits."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, assert_never

from oncely.domain.effect_outcomes import Declined, Json, Succeeded
from oncely.domain.jobs import Decision, Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import RetryPolicy, RetrySafety
from oncely.domain.text import single_line

# A message that was sent is worked within this time, or the row is taken to have lost it.
MESSAGE_GRACE: Final = timedelta(minutes=15)
# Four waits of 4, 8, 16 and 32 minutes: five timeouts in a row are spread over an hour.
TIMEOUT_BACKOFF: Final = timedelta(minutes=4)
UNREACHABLE_BACKOFF: Final = timedelta(seconds=15)
MAX_BACKOFF: Final = timedelta(minutes=15)
# The longest limit of a provider is a day's.
MAX_RETRY_AFTER: Final = timedelta(hours=24)
# Handing a message back costs one of its few receives: a longer wait is the row's.
MAX_REDELIVERY_DELAY: Final = timedelta(hours=1)
PENDING_RECHECK_INTERVAL: Final = timedelta(minutes=1)
# One sweep has a row to itself for this long: a provider's slowest answer and the write after it.
SWEEP_HOLD: Final = timedelta(minutes=2)
# Telling a person takes at most this: a topic's three tries, and clocks that differ.
ALERT_TIMEOUT: Final = timedelta(seconds=30)
# A message that was given up is sent again after this; by then a deployment was rolled back.
DEAD_LETTER_RETRY_DELAY: Final = timedelta(minutes=30)
# An outage of ours shorter than this must not end as a mass of reviews.
DEAD_LETTER_ESCALATION_AFTER: Final = timedelta(hours=6)


def ended_fields() -> dict[str, object]:
    """What every end changes; whether it owes something, and its expiry, is domain/proof.py's.

    Nobody sends any more, so the lease and the window of the key mean nothing from here on.
    """
    cleared = dict.fromkeys(("closing", "lease_until", "first_sent_at"))
    return {"timeouts": 0, "unreachable": 0, "paused_seconds": 0, **cleared}


def requeue(event: Event, reason: str, *, run_at: datetime, **changes: object) -> Decision:
    """The row may be claimed again, from `run_at` on."""
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
    """The owner itself does not know what happened; it sends nothing more, so its lease ends."""
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
    """Asked, and not known yet: look again later."""
    return Decision(
        event=Event.RECHECK,
        reason=reason,
        changes={"due_at": due_at, "last_error": single_line(reason), **changes},
    )


def escalate(reason: str, **changes: object) -> Decision:
    """No rule may decide: a person owns it, and it never expires."""
    kept = {name: value for name, value in changes.items() if value is not None}
    return Decision(
        event=Event.ESCALATE,
        reason=reason,
        changes={
            "expires_at": None,
            "last_error": single_line(reason),
            **kept,
        },
        alert=True,
    )


def backoff(first: timedelta, times: int, *, jitter: float, max_delay: timedelta) -> timedelta:
    """`first`, doubled each time, and up to a quarter more so that jobs do not march in step."""
    # 2**20 is past every limit in use; beyond, the number would only overflow.
    doubled: timedelta = first * 2 ** min(max(times - 1, 0), 20)
    return min(doubled, max_delay) * (1 + jitter / 4)


def retry_delay(timeouts: int, jitter: float) -> timedelta:
    """After a crash at once; after timeouts so that all of them are spread over an hour."""
    if timeouts == 0:
        return timedelta(0)
    return backoff(TIMEOUT_BACKOFF, timeouts, jitter=jitter, max_delay=timedelta(hours=2))


def escalate_if_other_deployment(
    job: Job, policy: RetryPolicy, deployment: str | None
) -> Decision | None:
    """A row of another deployment, such as one of a copied table. Returns None if it is ours.

    Its keys and its payments are the other's, which may work on it as well: one effect would then
    end two jobs. Only a natural effect may be repeated here.
    """
    if job.deployment == deployment or policy.safety is RetrySafety.NATURAL:
        return None
    return escalate("its row belongs to another deployment, which may work on it as well")


def on_late_outcome(row: Job, outcome: Succeeded | Declined, *, fence: int) -> Decision:
    """What a definite answer does that comes from a worker who lost its ownership."""
    reason = f"a late worker (claim {fence}) reports: {outcome.reason}"
    if _contradicts(row, outcome):
        return Decision(
            event=Event.CONTRADICT,
            reason=reason,
            changes={
                "expires_at": None,
                "last_error": single_line(reason),
            },
            alert=True,
        )
    return Decision(event=Event.NOTE, reason=reason)


def save_progress(progress: Mapping[str, Json]) -> Decision:
    """A long job came further: only the attempts since then count."""
    return Decision(
        event=Event.CHECKPOINT,
        reason="progress saved",
        changes={"progress": dict(progress), "attempts": 1, "timeouts": 0, "unreachable": 0},
    )


def save_reference(ref: str) -> Decision:
    """The provider's reference, saved before it is acted on."""
    return Decision(
        event=Event.CHECKPOINT,
        reason=f"prepared {ref}",
        changes={"provider_ref": ref},
    )


def restore_reference(ref: str) -> Decision:
    """The reference of an earlier run, which the row had lost in a restore."""
    return Decision(
        event=Event.CHECKPOINT,
        reason=f"the row was restored without its reference; {ref} was found at the provider",
        changes={"provider_ref": ref},
    )


def on_business_conflict(
    job: Job, policy: RetryPolicy | None, intended: Decision, *, reason: str, now: datetime
) -> Decision:
    """The effect is done, and our own rows do not take it: no loop, a person."""
    if (
        policy
        and policy.safety is RetrySafety.NATURAL
        and job.attempts < policy.limits.max_attempts
    ):
        # Somebody else changed the row first; looking at it again decides anew.
        event = Event.RELEASE if job.allows(Event.RELEASE) else Event.REQUEUE
        return requeue(event, f"the local rows changed: {reason}", run_at=now)
    if policy and policy.tolerates_row_changes and job.allows(Event.MARK_UNKNOWN):
        return mark_unknown(f"the local rows changed: {reason}", now, due_at=now)
    # Rows that refuse for ever are for a person all the same.
    if (
        policy
        and policy.tolerates_row_changes
        and job.allows(Event.RECHECK)
        and not job.past_max_age(policy.limits.max_age, now)
    ):
        return recheck_at(f"the local rows changed: {reason}", due_at=now)
    kept = {
        name: intended.changes[name]
        for name in ("provider_ref", "result")
        if name in intended.changes
    }
    return escalate(f"{intended.reason}, but the local rows refuse: {reason}", **kept)


def absence_conclusive_at(job: Job, policy: RetryPolicy) -> datetime:
    """When "not there" begins to count: the last possible send has been seen through."""
    last_send = job.lease_until or job.updated_at
    lag = policy.profile.lookup_lag or timedelta(0)
    return last_send + policy.profile.request_timeout + lag


def _contradicts(row: Job, outcome: Succeeded | Declined) -> bool:
    match row.status:
        case Status.FINISHED:
            # The reference names the one effect; a request id, say, differs with every answer.
            return isinstance(outcome, Declined) or outcome.ref not in {None, row.provider_ref}
        case Status.FAILED:
            return isinstance(outcome, Succeeded)
        case Status.READY | Status.STARTED | Status.UNKNOWN | Status.NEEDS_REVIEW:
            return False
        case unreachable:
            assert_never(unreachable)
