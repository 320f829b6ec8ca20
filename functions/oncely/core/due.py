"""What a due row needs, by its status, and the decisions of a sweep about it."""

import zlib
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import Final, assert_never

from oncely.core.decide import (
    ALERT_TIMEOUT,
    DEAD_LETTER_ESCALATION_AFTER,
    DEAD_LETTER_RETRY_DELAY,
    MESSAGE_GRACE,
    SWEEP_HOLD,
    escalate,
    park,
)
from oncely.core.effect_outcomes import Anomalous, Declined, LookupOutcome, StillOpen, Succeeded
from oncely.core.job_row import Decision, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.profiles import RetryPolicy

# The fewest partitions of each action in the due index, and what producers use.
DUE_SHARDS: Final = 8

# The last event of a stranded row whose next message was not sent yet.
_AWAITING_SEND_EVENTS: Final = frozenset({Event.PARK, Event.ENQUEUE})


class SweepStep(Enum):
    """What the reconciler does with a row."""

    LOOK_UP = auto()  # ask the provider for the outcome
    EXPIRE_LEASE = auto()  # its owner is certainly gone
    RESEND = auto()  # its message was lost
    PUBLISH = auto()  # it ended, and may have follow-ups or an event to send
    ALERT = auto()  # it needs review, and no alert was delivered
    NONE = auto()  # not due, or held by its owner


class DueAction(StrEnum):
    """What due rows wait for. Each has its own index partitions, so none hides another."""

    LOOK_UP = "ask"  # only a sweep resolves these
    RESEND = "send"  # a message is on the way, or was lost
    PUBLISH = "publish"  # the stream may still be busy with these
    ALERT = "alert"  # in review, and no alert was delivered


def due_action(status: Status) -> DueAction:
    """What a due row of this status waits for."""
    match status:
        case Status.STARTED | Status.UNKNOWN:
            return DueAction.LOOK_UP
        case Status.READY:
            return DueAction.RESEND
        case Status.FINISHED | Status.FAILED | Status.CANCELLED:
            return DueAction.PUBLISH
        case Status.NEEDS_REVIEW:
            return DueAction.ALERT
        case unreachable:
            assert_never(unreachable)


def due_shard(key: JobKey, shards: int) -> int:
    """The shard of a job in the due index: stable and evenly spread."""
    return zlib.crc32(key.encode()) % shards


def sweep_step(row: JobRow, now: datetime, *, on_demand: bool = False) -> SweepStep:
    """What to do with a row that was due when found; it may have changed since.

    `on_demand`: an operator requested this job, so it need not be due.
    """
    is_due = row.due_at is not None and now >= row.due_at
    match row.status:
        case Status.STARTED:
            return SweepStep.EXPIRE_LEASE if row.lease_expired(now) else SweepStep.NONE
        case Status.UNKNOWN:
            return SweepStep.LOOK_UP if is_due or on_demand else SweepStep.NONE
        case Status.READY:
            return SweepStep.RESEND if is_due else SweepStep.NONE
        case Status.NEEDS_REVIEW:
            return SweepStep.ALERT if is_due else SweepStep.NONE
        case Status.FINISHED | Status.FAILED | Status.CANCELLED:
            return SweepStep.PUBLISH if is_due else SweepStep.NONE
        case unreachable:
            assert_never(unreachable)


def is_due_too_late(row: JobRow, schedule_limit: timedelta, now: datetime) -> bool:
    """Whether no message is underway, and the row does not send one when the job may run.

    Whoever may insert a row may insert any due time. Another producer's clock may be ahead.
    """
    return row.due_at is None or row.due_at > row.runs_at(now, schedule_limit) + 2 * MESSAGE_GRACE


def will_start(row: JobRow, *, until: datetime, schedule_limit: timedelta, now: datetime) -> bool:
    """Whether a job has not started, and will: when it may run, or until the given time."""
    if row.was_claimed or row.due_at is None:
        return False
    # Only our functions write what a job waits for, however long.
    is_kept = row.waits_for is not None or row.due_at <= until
    return is_kept or not is_due_too_late(row, schedule_limit, now)


def hold_for_sweep(row: JobRow, now: datetime, *, jitter: float) -> JobRow:
    """Move the due time, so that one sweep has the row to itself for a while.

    Without up to 10 seconds of jitter, two sweeps in the same millisecond would write equal rows,
    and both would take the write for their own.
    """
    jitter_delay = timedelta(milliseconds=int(10_000 * jitter))
    return replace(row, version=row.version + 1, due_at=now + SWEEP_HOLD + jitter_delay)


def reserve_alert(review: JobRow, now: datetime) -> JobRow:
    """Reserve the alert with the write that causes it, so that no other process sends one."""
    return replace(review, due_at=now + SWEEP_HOLD)


def alert_reservation_valid(row: JobRow, now: datetime) -> bool:
    """Whether there is time to send the alert before the reservation ends."""
    return row.due_at is not None and now + ALERT_TIMEOUT <= row.due_at


def hold_alert(review: JobRow, until: datetime) -> JobRow:
    """Let a review wait for its alert, so that its version stays as operators see it."""
    return replace(review, version=review.version + 1, due_at=until)


def mark_alerted() -> Decision:
    """An alert or a summary was sent: nothing is due until an operator decides."""
    return Decision(event=Event.ALERT, reason="alert sent", changes={"due_at": None})


def on_dead_letter(row: JobRow, schedule_limit: timedelta, now: datetime) -> Decision | None:
    """What a dead letter does to its row. Returns None if the row needs no message."""
    if not row.allows(Event.PARK) or row.runs_later(now, schedule_limit):
        return None
    if row.is_stranded and row.since and now - row.since >= DEAD_LETTER_ESCALATION_AFTER:
        return escalate(
            f"its message was dead-lettered again, and no worker has claimed it since "
            f"{row.since:%Y-%m-%d %H:%M} UTC"
        )
    if row.is_stranded and row.evidence and row.evidence[-1].event in _AWAITING_SEND_EVENTS:
        return None  # the same dead letter again: nothing was sent since
    reason = "its message was dead-lettered; it is retried later"
    return park(row, now + DEAD_LETTER_RETRY_DELAY, reason, WaitKind.DEAD_LETTER)


def escalate_if_values_changed(job: JobRow, current_fingerprint: str | None) -> Decision | None:
    """Escalate if a worker would reject the row's own message, instead of resending it forever."""
    if None in {job.fingerprint, current_fingerprint} or job.fingerprint == current_fingerprint:
        return None
    return escalate("the business values changed since a worker first claimed it")


def flag_changed_values(
    job: JobRow, outcome: LookupOutcome, current_fingerprint: str | None
) -> LookupOutcome:
    """Turn a definite outcome into an anomaly if the business values changed since the claim."""
    escalation = escalate_if_values_changed(job, current_fingerprint)
    if escalation is None or not isinstance(outcome, Succeeded | Declined | StillOpen | Anomalous):
        return outcome
    ref = None if isinstance(outcome, Declined | StillOpen) else outcome.ref
    return Anomalous(f"{outcome.reason}; but {escalation.reason}", ref, outcome.result)


def resend(job: JobRow, policy: RetryPolicy, now: datetime) -> Decision:
    """Resend the message of a ready row, or escalate if the job is too old."""
    if reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(f"{reason}; the last error was: {job.last_error or 'none'}")
    # No worker took the last one either, so it is not what the row waits for that holds the job.
    is_lost = not job.ages and job.evidence[-1:] and job.evidence[-1].event is Event.RESEND
    ended = {"waits_for": None} if is_lost else {}
    return Decision(
        event=Event.RESEND,
        reason="the message was lost or is due: resent",
        changes={"due_at": now + MESSAGE_GRACE, **ended},
    )
