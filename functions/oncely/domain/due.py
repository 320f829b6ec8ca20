"""What a row asks for by its status and its due time, and what is done about it."""

import zlib
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import Final, assert_never

from oncely.domain.decisions import (
    ALERT_TIMEOUT,
    DEAD_LETTER_ESCALATION_AFTER,
    DEAD_LETTER_RETRY_DELAY,
    MESSAGE_GRACE,
    SWEEP_HOLD,
    escalate,
)
from oncely.domain.effect_outcomes import Anomalous, Declined, EffectOutcome, StillOpen, Succeeded
from oncely.domain.jobs import Decision, Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import RetryPolicy

# Partitions of each action in the due index, at least: producers know no other number.
DUE_SHARDS: Final = 8

# The last thing that happened to a marked row whose next message was not sent yet.
_AWAITING_SEND_EVENTS: Final = frozenset({Event.DEFER, Event.ENQUEUE})


class SweepStep(Enum):
    """What a row that is due asks of the reconciler."""

    LOOK_UP = auto()  # the provider knows what became of it
    EXPIRE_LEASE = auto()  # its owner is certainly dead
    RESEND = auto()  # it has lost its message
    PUBLISH = auto()  # it has ended, and owes follow-ups or an event
    ALERT = auto()  # it needs review, and no person was told
    NONE = auto()  # not due, held by its owner, a person's, or ended


class DueAction(StrEnum):
    """What due rows wait for. Each has its own partitions of the index, so none hides another."""

    LOOK_UP = "ask"  # only a sweep resolves it
    RESEND = "send"  # a message is on its way, or was lost
    PUBLISH = "publish"  # the stream, or an alert, may still be at work on it


def due_action(status: Status) -> DueAction:
    """What a due row of this status waits for."""
    match status:
        case Status.STARTED | Status.UNKNOWN:
            return DueAction.LOOK_UP
        case Status.READY:
            return DueAction.RESEND
        case Status.FINISHED | Status.FAILED | Status.NEEDS_REVIEW:
            return DueAction.PUBLISH
        case unreachable:
            assert_never(unreachable)


def due_shard(key: JobKey, shards: int) -> int:
    """The shard of a job in the due index: always the same one, and evenly spread."""
    return zlib.crc32(key.encode()) % shards


def sweep_step(row: Job, now: datetime, *, on_demand: bool = False) -> SweepStep:
    """What to do about a row that was found due; it may have moved on since.

    `asked_for`: somebody wants this very job looked at, though its time has not come.
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
        case Status.FINISHED | Status.FAILED:
            return SweepStep.PUBLISH if is_due else SweepStep.NONE
        case unreachable:
            assert_never(unreachable)


def hold_for_sweep(row: Job, now: datetime, *, jitter: float) -> Job:
    """The row with a later due time: whoever writes it has the look to itself for a while.

    Without jitter, two who look in the same millisecond would write the same row, and each would
    take it for its own.
    """
    jitter_delay = timedelta(milliseconds=int(1000 * jitter))
    return replace(row, version=row.version + 1, due_at=now + SWEEP_HOLD + jitter_delay)


def reserve_alert(review: Job, now: datetime) -> Job:
    """A review whose own write takes the right to tell of it: nobody else does for a while."""
    return replace(review, due_at=now + SWEEP_HOLD)


def alert_reservation_valid(row: Job, now: datetime) -> bool:
    """Whether whoever wrote this row can still tell of it before somebody else may."""
    return row.due_at is not None and now + ALERT_TIMEOUT <= row.due_at


def mark_alerted() -> Decision:
    """A person was told: nothing is due any more until that person rules."""
    return Decision(event=Event.ALERT, reason="a person was told", changes={"due_at": None})


def mark_stranded(job: Job, now: datetime) -> Job:
    """A ready row whose message was given up, marked, and due later."""
    since = job.stranded_since if job.stranded_fence == job.fence else None
    return replace(
        job,
        stranded_fence=job.fence,
        stranded_since=since or now,
        due_at=now + DEAD_LETTER_RETRY_DELAY,
    )


def on_dead_letter(row: Job, now: datetime) -> Decision | None:
    """What a dead letter does to its row; None: the row carries the job anyway."""
    if not row.allows(Event.DEFER):
        return None
    marked = mark_stranded(row, now)
    is_repeated = row.stranded_fence == row.fence
    if (
        is_repeated
        and marked.stranded_since
        and now - marked.stranded_since >= DEAD_LETTER_ESCALATION_AFTER
    ):
        return escalate(
            f"its message was given up again, and no worker has claimed it since "
            f"{marked.stranded_since:%Y-%m-%d %H:%M} UTC"
        )
    if is_repeated and row.evidence and row.evidence[-1].event in _AWAITING_SEND_EVENTS:
        return None  # the same letter once more: nothing was sent since it was marked
    return Decision(
        event=Event.DEFER,
        reason="its message came to the dead letters; it is tried again later",
        changes={
            "due_at": marked.due_at,
            "stranded_fence": marked.stranded_fence,
            "stranded_since": marked.stranded_since,
        },
    )


def escalate_if_values_changed(job: Job, current_fingerprint: str | None) -> Decision | None:
    """A worker would refuse the row's own message: it must not be sent again and again."""
    if None in {job.fingerprint, current_fingerprint} or job.fingerprint == current_fingerprint:
        return None
    return escalate("the business values changed since a worker first claimed it")


def flag_changed_values(
    job: Job, outcome: EffectOutcome, current_fingerprint: str | None
) -> EffectOutcome:
    """A definite answer, unless our rows stand for something else by now: then none may follow."""
    escalation = escalate_if_values_changed(job, current_fingerprint)
    if escalation is None or not isinstance(outcome, Succeeded | Declined | StillOpen | Anomalous):
        return outcome
    ref = None if isinstance(outcome, Declined | StillOpen) else outcome.ref
    return Anomalous(f"{outcome.reason}; but {escalation.reason}", ref, outcome.result)


def resend(job: Job, policy: RetryPolicy, now: datetime) -> Decision:
    """A ready row that lost its message gets another one, and time to be worked; not for ever."""
    if reason := job.past_max_age(policy.limits.max_age, now):
        return escalate(f"{reason}; the last error was: {job.last_error or 'none'}")
    return Decision(
        event=Event.RESEND,
        reason="the message was lost, or its time had come: sent again",
        changes={"due_at": now + MESSAGE_GRACE},
    )
