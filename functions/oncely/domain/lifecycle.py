"""The life cycle of a job: its statuses, and the one table of moves between them."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from oncely.domain.errors import IllegalTransitionError


class Status(StrEnum):
    """Where a job is. The values are stored; do not rename them."""

    READY = "ready"  # may be claimed; a message is, or will be, on its way
    STARTED = "started"  # one owner holds the lease
    UNKNOWN = "unknown"  # the provider may have acted; the reconciler owns it
    FINISHED = "finished"  # the outside action is confirmed and recorded
    FAILED = "failed"  # the provider refused it, nothing is left open there, and that is recorded
    NEEDS_REVIEW = "needs_review"  # no rule may decide; a person owns it

    @property
    def label(self) -> str:
        """The word that support agents read."""
        match self:
            case Status.READY | Status.STARTED | Status.UNKNOWN:
                return "pending"
            case Status.FINISHED:
                return "done"
            case Status.FAILED:
                return "failed"
            case Status.NEEDS_REVIEW:
                return "needs review"
            case unreachable:
                assert_never(unreachable)


class Event(StrEnum):
    """What can happen to a job. Evidence names it, so the values are stored as well."""

    ENQUEUE = "enqueue"  # a producer, or the healer, wrote the row before its message
    RESEND = "resend"  # the row lost its message: another was sent
    DEFER = "defer"  # its message came to the dead letters: it is tried again later
    CLAIM = "claim"  # a worker became the owner
    CHECKPOINT = "checkpoint"  # the owner saved the provider's reference
    CONFIRM = "confirm"  # a definite yes
    DECLINE = "decline"  # a definite no
    RELEASE = "release"  # nothing was sent, or it is safe to send again
    MARK_UNKNOWN = (
        "mark_unknown"  # the provider may have acted: timeout, garbled answer, lease over
    )
    RECHECK = "recheck"  # asked, and not known yet
    REQUEUE = "requeue"  # the provider certainly did not act
    ESCALATE = "escalate"  # no rule may decide
    ALERT = "alert"  # a person was told that it needs review
    CONTRADICT = "contradict"  # evidence that speaks against an end that was recorded
    RESTORE = "restore"  # the job table was restored: what this job did may be lost
    NOTE = "note"  # evidence that changes nothing
    RESOLVE_FINISHED = "resolve_finished"  # a person, with a reason
    RESOLVE_FAILED = "resolve_failed"  # a person, with a reason
    REOPEN = "reopen"  # a person, with proof of absence
    CLOSE_AND_FAIL = (
        "close_and_fail"  # a person wants it failed; a worker closes what is open first
    )


NO_ROW: Final = None
_OPEN: Final = (Status.READY, Status.STARTED, Status.UNKNOWN)

TRANSITIONS: Final[Mapping[tuple[Status | None, Event], Status]] = MappingProxyType(
    {
        (NO_ROW, Event.ENQUEUE): Status.READY,
        (NO_ROW, Event.CLAIM): Status.STARTED,
        (Status.READY, Event.CLAIM): Status.STARTED,
        (Status.READY, Event.RESEND): Status.READY,
        (Status.READY, Event.DEFER): Status.READY,
        (Status.READY, Event.ESCALATE): Status.NEEDS_REVIEW,
        (Status.STARTED, Event.CHECKPOINT): Status.STARTED,
        (Status.STARTED, Event.CONFIRM): Status.FINISHED,
        (Status.STARTED, Event.DECLINE): Status.FAILED,
        (Status.STARTED, Event.RELEASE): Status.READY,
        (Status.STARTED, Event.MARK_UNKNOWN): Status.UNKNOWN,
        (Status.STARTED, Event.ESCALATE): Status.NEEDS_REVIEW,
        (Status.UNKNOWN, Event.RECHECK): Status.UNKNOWN,
        (Status.UNKNOWN, Event.CONFIRM): Status.FINISHED,
        (Status.UNKNOWN, Event.DECLINE): Status.FAILED,
        (Status.UNKNOWN, Event.REQUEUE): Status.READY,
        (Status.UNKNOWN, Event.ESCALATE): Status.NEEDS_REVIEW,
        **{(status, Event.RESTORE): Status.UNKNOWN for status in _OPEN},
        (Status.FINISHED, Event.CONTRADICT): Status.NEEDS_REVIEW,
        (Status.FAILED, Event.CONTRADICT): Status.NEEDS_REVIEW,
        (Status.NEEDS_REVIEW, Event.ALERT): Status.NEEDS_REVIEW,
        (Status.NEEDS_REVIEW, Event.RESOLVE_FINISHED): Status.FINISHED,
        (Status.NEEDS_REVIEW, Event.RESOLVE_FAILED): Status.FAILED,
        (Status.NEEDS_REVIEW, Event.REOPEN): Status.READY,
        (Status.NEEDS_REVIEW, Event.CLOSE_AND_FAIL): Status.READY,
        **{(status, Event.NOTE): status for status in Status},
    }
)

# An ended job moves again only when evidence contradicts its end; nothing routine touches it.
ENDED: Final = frozenset(
    status
    for status in Status
    if {event for source, event in TRANSITIONS if source is status}
    <= {Event.CONTRADICT, Event.NOTE}
)
# What the machine still has to bring to an end; a review is a person's.
UNRESOLVED: Final = frozenset(Status) - ENDED - {Status.NEEDS_REVIEW}
# What operators act on, so that it is listed for them.
ATTENTION: Final = frozenset({Status.NEEDS_REVIEW, Status.UNKNOWN, Status.FAILED})


def next_status(status: Status | None, event: Event) -> Status:
    """The status that follows, or IllegalTransitionError."""
    try:
        return TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransitionError(status, event) from None
