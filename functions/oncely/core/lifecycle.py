"""The life cycle of a job: its statuses, and the one table of transitions between them."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from oncely.core.errors import IllegalTransitionError


class Label(StrEnum):
    """The word that support agents read."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    NEEDS_REVIEW = "needs review"


class Status(StrEnum):
    """The status of a job. The values are stored, so never rename them."""

    READY = "ready"  # may be claimed; its message is on the way, or will be
    STARTED = "started"  # one owner holds the lease
    UNKNOWN = "unknown"  # the effect may have happened; the reconciler looks it up
    FINISHED = "finished"  # the effect is confirmed and recorded
    FAILED = "failed"  # the provider declined, and nothing is left open there
    CANCELLED = "cancelled"  # an operator cancelled it before anything was done
    NEEDS_REVIEW = "needs_review"  # no automatic rule applies; an operator decides

    @property
    def label(self) -> Label:
        """The phase of a status. The sets below are derived from it, so a new status is in one."""
        match self:
            case Status.READY | Status.STARTED | Status.UNKNOWN:
                return Label.PENDING
            case Status.FINISHED:
                return Label.DONE
            case Status.FAILED:
                return Label.FAILED
            case Status.CANCELLED:
                return Label.CANCELLED
            case Status.NEEDS_REVIEW:
                return Label.NEEDS_REVIEW
            case unreachable:
                assert_never(unreachable)

    @property
    def is_finished(self) -> bool:
        """Whether the effect is confirmed and recorded."""
        return self.label is Label.DONE

    @property
    def is_failed(self) -> bool:
        """Whether the provider declined, and nothing is left open there."""
        return self.label is Label.FAILED

    @property
    def is_cancelled(self) -> bool:
        """Whether an operator cancelled it before anything was done."""
        return self.label is Label.CANCELLED

    def allows(self, event: "Event") -> bool:
        """Whether the life cycle allows `event` now."""
        return (self, event) in TRANSITIONS


class Event(StrEnum):
    """What can happen to a job. Evidence stores these values, so never rename them."""

    ENQUEUE = "enqueue"  # a producer or the reconciler wrote the row before its message
    REQUEST = "request"  # an operator asked to send it, and a second one must confirm that
    RESEND = "resend"  # its message was lost, so another was sent
    PARK = "park"  # it waits, and its row says for what: see `WaitKind`
    RESCHEDULE = "reschedule"  # an operator set another run time
    REFUSE = "refuse"  # a message was refused: the business rows have other values
    CLAIM = "claim"  # a worker became the owner
    CLAIM_REVIEW = "claim_review"  # the same, for a review that waits for a message
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
    ERASE = "erase"  # personal data is removed, now or when the job ends
    RESOLVE_FINISHED = "resolve_finished"  # by an operator, with a reason
    RESOLVE_FAILED = "resolve_failed"  # by an operator, with a reason
    REOPEN = "reopen"  # by an operator, with proof that nothing happened
    CLOSE_AND_FAIL = "close_and_fail"  # by an operator; a worker closes what is open first
    CANCEL = "cancel"  # by an operator: nothing was done, and nothing is left open
    CLOSE_AND_CANCEL = "close_and_cancel"  # by an operator; a worker closes what is open first
    CLOSE = "close"  # what an operator cancelled is closed at the provider


class WaitKind(StrEnum):
    """What a job waits for before it runs again. Rows store these values, so never rename them."""

    BUSINESS_ROW = "business_row"  # its business rows are not there yet
    MESSAGE = "message"  # it is in review, nothing was sent, and a valid message runs it
    DEAD_LETTER = "dead_letter"  # its message was dead-lettered, and is resent later
    GATE = "gate"  # it is paused, or the gate of its provider is closed
    SECRET = "secret"  # noqa: S105  # our secret is missing, or the provider rejects it
    RUN_AT = "run_at"  # its run time is in the future
    # Only outcomes of a run have these: no row waits.
    RETRY = "retry"  # nothing was sent, or a resend is safe
    NEXT_PART = "next_part"  # a long job made progress, and a new message continues it


# The time in which a ready row waits for one of these is not age: the job is not what is wrong.
# The age begins at a run time anyway, a dead letter counts towards its limits, and a review that
# waits for a message restarts the age when it is claimed.
NOT_AGE: Final = (WaitKind.BUSINESS_ROW, WaitKind.GATE, WaitKind.SECRET)
# A valid message claims a job that waits for one of these.
AWAITS_MESSAGE: Final = (WaitKind.BUSINESS_ROW, WaitKind.MESSAGE)
NO_ROW: Final = None
# Workers and the reconciler still have to end these.
UNRESOLVED: Final = frozenset(status for status in Status if status.label is Label.PENDING)
# An operator decides these.
IN_REVIEW: Final = frozenset(status for status in Status if status.label is Label.NEEDS_REVIEW)

TRANSITIONS: Final[Mapping[tuple[Status | None, Event], Status]] = MappingProxyType(
    {
        (NO_ROW, Event.ENQUEUE): Status.READY,
        (NO_ROW, Event.REQUEST): Status.NEEDS_REVIEW,
        (NO_ROW, Event.CLAIM): Status.STARTED,
        (NO_ROW, Event.CANCEL): Status.CANCELLED,
        (Status.READY, Event.CLAIM): Status.STARTED,
        (Status.READY, Event.RESEND): Status.READY,
        (Status.READY, Event.PARK): Status.READY,
        (Status.READY, Event.RESCHEDULE): Status.READY,
        (Status.READY, Event.REFUSE): Status.READY,
        (Status.READY, Event.ESCALATE): Status.NEEDS_REVIEW,
        (Status.READY, Event.CANCEL): Status.CANCELLED,
        (Status.READY, Event.CLOSE_AND_CANCEL): Status.READY,
        (Status.STARTED, Event.CHECKPOINT): Status.STARTED,
        (Status.STARTED, Event.CONFIRM): Status.FINISHED,
        (Status.STARTED, Event.DECLINE): Status.FAILED,
        (Status.STARTED, Event.CLOSE): Status.CANCELLED,
        (Status.STARTED, Event.RELEASE): Status.READY,
        (Status.STARTED, Event.MARK_UNKNOWN): Status.UNKNOWN,
        (Status.STARTED, Event.ESCALATE): Status.NEEDS_REVIEW,
        (Status.UNKNOWN, Event.RECHECK): Status.UNKNOWN,
        (Status.UNKNOWN, Event.CONFIRM): Status.FINISHED,
        (Status.UNKNOWN, Event.DECLINE): Status.FAILED,
        (Status.UNKNOWN, Event.CLOSE): Status.CANCELLED,
        (Status.UNKNOWN, Event.REQUEUE): Status.READY,
        (Status.UNKNOWN, Event.ESCALATE): Status.NEEDS_REVIEW,
        **{(status, Event.RESTORE): Status.UNKNOWN for status in sorted(UNRESOLVED)},
        (Status.FINISHED, Event.CONTRADICT): Status.NEEDS_REVIEW,
        (Status.FAILED, Event.CONTRADICT): Status.NEEDS_REVIEW,
        (Status.CANCELLED, Event.CONTRADICT): Status.NEEDS_REVIEW,
        (Status.NEEDS_REVIEW, Event.CLAIM_REVIEW): Status.STARTED,
        (Status.NEEDS_REVIEW, Event.REFUSE): Status.NEEDS_REVIEW,
        (Status.NEEDS_REVIEW, Event.ALERT): Status.NEEDS_REVIEW,
        (Status.NEEDS_REVIEW, Event.CONFIRM): Status.FINISHED,
        (Status.NEEDS_REVIEW, Event.RESOLVE_FINISHED): Status.FINISHED,
        (Status.NEEDS_REVIEW, Event.RESOLVE_FAILED): Status.FAILED,
        (Status.NEEDS_REVIEW, Event.REOPEN): Status.READY,
        (Status.NEEDS_REVIEW, Event.CLOSE_AND_FAIL): Status.READY,
        (Status.NEEDS_REVIEW, Event.CANCEL): Status.CANCELLED,
        **{(status, event): status for status in Status for event in (Event.NOTE, Event.ERASE)},
    }
)

# An ended job changes its status again only if evidence contradicts its result.
ENDED: Final = frozenset(
    status
    for status in Status
    if {event for source, event in TRANSITIONS if source is status}
    <= {Event.CONTRADICT, Event.NOTE, Event.ERASE}
)
# The events that end a job.
ENDING: Final = frozenset(
    event
    for (source, event), status in TRANSITIONS.items()
    if status in ENDED and source not in ENDED
)
# What operators act on.
ATTENTION: Final = frozenset({Status.NEEDS_REVIEW, Status.UNKNOWN, Status.FAILED})
# An index lists these.
LISTED: Final = ATTENTION | {Status.CANCELLED}


def next_status(status: Status | None, event: Event) -> Status:
    """The status after `event`. Raises IllegalTransitionError if there is none."""
    try:
        return TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransitionError(status, event) from None
