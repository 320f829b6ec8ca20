"""The life cycle of a job: its statuses, and the one table of transitions between them."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from oncely.domain.errors import IllegalTransitionError


class Status(StrEnum):
    """Where a job is. The values are stored, so never rename them."""

    READY = "ready"  # may be claimed; its message is on the way, or will be
    STARTED = "started"  # one owner holds the lease
    UNKNOWN = "unknown"  # the effect may have happened; the reconciler looks it up
    FINISHED = "finished"  # the effect is confirmed and recorded
    FAILED = "failed"  # the provider declined, and nothing is left open there
    NEEDS_REVIEW = "needs_review"  # no automatic rule applies; an operator decides

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
    """What can happen to a job. Evidence stores these values, so never rename them."""

    ENQUEUE = "enqueue"  # a producer or the reconciler wrote the row before its message
    RESEND = "resend"  # the row had lost its message, so another was sent
    DEFER = "defer"  # its message was dead-lettered; it is retried later
    CLAIM = "claim"  # a worker became the owner
    CHECKPOINT = "checkpoint"  # the owner saved the provider reference or its progress
    CONFIRM = "confirm"  # the provider confirmed the effect
    DECLINE = "decline"  # the provider declined
    RELEASE = "release"  # nothing was sent, or a resend is safe
    MARK_UNKNOWN = "mark_unknown"  # ambiguous: timeout, malformed response, expired lease
    RECHECK = "recheck"  # looked up, and still not known
    REQUEUE = "requeue"  # the effect certainly did not happen
    ESCALATE = "escalate"  # no automatic rule applies
    ALERT = "alert"  # operators were alerted that it needs review
    CONTRADICT = "contradict"  # new evidence contradicts the recorded result
    RESTORE = "restore"  # the job table was restored, so what this job did may be lost
    NOTE = "note"  # evidence that changes nothing
    RESOLVE_FINISHED = "resolve_finished"  # by an operator, with a reason
    RESOLVE_FAILED = "resolve_failed"  # by an operator, with a reason
    REOPEN = "reopen"  # by an operator, with proof that nothing happened
    CLOSE_AND_FAIL = "close_and_fail"  # by an operator; a worker closes what is open first


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

# An ended job changes its status again only if evidence contradicts its result.
ENDED: Final = frozenset(
    status
    for status in Status
    if {event for source, event in TRANSITIONS if source is status}
    <= {Event.CONTRADICT, Event.NOTE}
)
# The events that end a job.
ENDING: Final = frozenset(
    event
    for (source, event), status in TRANSITIONS.items()
    if status in ENDED and source not in ENDED
)
# What workers and the reconciler still have to end.
UNRESOLVED: Final = frozenset(Status) - ENDED - {Status.NEEDS_REVIEW}
# What operators act on; an index lists these.
ATTENTION: Final = frozenset({Status.NEEDS_REVIEW, Status.UNKNOWN, Status.FAILED})


def next_status(status: Status | None, event: Event) -> Status:
    """The status after `event`. Raises IllegalTransitionError if there is none."""
    try:
        return TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransitionError(status, event) from None
