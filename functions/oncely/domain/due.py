"""What a row asks for by its status and its due time, and what is done about it."""

import zlib
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import Final, assert_never

from oncely.domain.answers import Answer, Done, Odd, Refused, StillOpen
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import (
    LOOK_TIME,
    MESSAGE_GRACE,
    OUTAGE_ALLOWED,
    STRANDED_WAIT,
    TELLING_TAKES,
    Decision,
    escalate,
    too_old,
)
from oncely.domain.profiles import Terms

# Partitions of each action in the due index, at least: producers know no other number.
DUE_SHARDS: Final = 8

# The last thing that happened to a marked row whose next message was not sent yet.
_WAITING_TO_BE_SENT: Final = frozenset({Event.DEFER, Event.ENQUEUE})


class Step(Enum):
    """What a row that is due asks of the reconciler."""

    ASK = auto()  # the provider knows what became of it
    BURY = auto()  # its owner is certainly dead
    SEND = auto()  # it has lost its message
    PUBLISH = auto()  # it has ended, and owes follow-ups or an event
    TELL = auto()  # it needs review, and no person was told
    NOTHING = auto()  # not due, held by its owner, a person's, or ended


class Action(StrEnum):
    """What due rows wait for. Each has its own partitions of the index, so none hides another."""

    ASK = "ask"  # only a sweep resolves it
    SEND = "send"  # a message is on its way, or was lost
    PUBLISH = "publish"  # the stream, or an alert, may still be at work on it


def due_action(status: Status) -> Action:
    """What a due row of this status waits for."""
    match status:
        case Status.STARTED | Status.UNKNOWN:
            return Action.ASK
        case Status.READY:
            return Action.SEND
        case Status.FINISHED | Status.FAILED | Status.NEEDS_REVIEW:
            return Action.PUBLISH
        case _:
            assert_never(status)


def due_shard(key: JobKey, shards: int) -> int:
    """The shard of a job in the due index: always the same one, and evenly spread."""
    return zlib.crc32(key.encode()) % shards


def due_step(row: Job, now: datetime, *, asked_for: bool = False) -> Step:
    """What to do about a row that was found due; it may have moved on since.

    `asked_for`: somebody wants this very job looked at, though its time has not come.
    """
    match row.status:
        case Status.STARTED if row.lease_over(now):
            return Step.BURY
        case Status.UNKNOWN if asked_for:
            return Step.ASK
        case _ if row.due_at is None or now < row.due_at:
            return Step.NOTHING
        case Status.UNKNOWN:
            return Step.ASK
        case Status.READY:
            return Step.SEND
        case Status.NEEDS_REVIEW:
            return Step.TELL
        case Status.FINISHED | Status.FAILED:
            return Step.PUBLISH
        case _:
            return Step.NOTHING


def looked_at(row: Job, now: datetime, *, jitter: float) -> Job:
    """The row with a later due time: whoever writes it has the look to itself for a while.

    Without jitter, two who look in the same millisecond would write the same row, and each would
    take it for its own.
    """
    apart = timedelta(milliseconds=int(1000 * jitter))
    return replace(row, version=row.version + 1, due_at=now + LOOK_TIME + apart)


def mine_to_tell(review: Job, now: datetime) -> Job:
    """A review whose own write takes the right to tell of it: nobody else does for a while."""
    return replace(review, due_at=now + LOOK_TIME)


def may_tell(row: Job, now: datetime) -> bool:
    """Whether whoever wrote this row can still tell of it before somebody else may."""
    return row.due_at is not None and now + TELLING_TAKES <= row.due_at


def told() -> Decision:
    """A person was told: nothing is due any more until that person rules."""
    return Decision(event=Event.TELL, reason="a person was told", changes={"due_at": None})


def stranded(job: Job, now: datetime) -> Job:
    """A ready row whose message was given up, marked, and due later."""
    since = job.stranded_since if job.stranded_fence == job.fence else None
    return replace(
        job,
        stranded_fence=job.fence,
        stranded_since=since or now,
        due_at=now + STRANDED_WAIT,
    )


def dead_letter(row: Job, now: datetime) -> Decision | None:
    """What a dead letter does to its row; None: the row carries the job anyway."""
    if row.status is not Status.READY:
        return None
    marked = stranded(row, now)
    again = row.stranded_fence == row.fence
    if again and marked.stranded_since and now - marked.stranded_since >= OUTAGE_ALLOWED:
        return escalate(
            f"its message was given up again, and no worker has claimed it since "
            f"{marked.stranded_since:%Y-%m-%d %H:%M} UTC"
        )
    if again and row.evidence and row.evidence[-1].event in _WAITING_TO_BE_SENT:
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


def no_longer_the_same(job: Job, fingerprint_now: str | None) -> Decision | None:
    """A worker would refuse the row's own message: it must not be sent again and again."""
    if None in {job.fingerprint, fingerprint_now} or job.fingerprint == fingerprint_now:
        return None
    return escalate("the business values changed since a worker first claimed it")


def of_other_values(job: Job, answer: Answer, fingerprint_now: str | None) -> Answer:
    """A definite answer, unless our rows stand for something else by now: then none may follow."""
    changed = no_longer_the_same(job, fingerprint_now)
    if changed is None or not isinstance(answer, Done | Refused | StillOpen | Odd):
        return answer
    ref = None if isinstance(answer, Refused | StillOpen) else answer.ref
    return Odd(f"{answer.reason}; but {changed.reason}", ref, answer.result)


def send_again(job: Job, terms: Terms, now: datetime) -> Decision:
    """A ready row that lost its message gets another one, and time to be worked; not for ever."""
    if reason := too_old(job, terms, now):
        return escalate(f"{reason}; the last error was: {job.last_error or 'none'}")
    return Decision(
        event=Event.RESEND,
        reason="the message was lost, or its time had come: sent again",
        changes={"due_at": now + MESSAGE_GRACE},
    )
