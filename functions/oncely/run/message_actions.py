"""What becomes of a queue message, given how its job went."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, assert_never

from oncely.run.outcomes import (
    AwaitingResolution,
    Conflict,
    Continued,
    Duplicate,
    Failed,
    Finished,
    InternalError,
    InvalidMessage,
    LeasedElsewhere,
    NeedsReview,
    NotAttempted,
    NotStarted,
    OwnershipLost,
    RowMissing,
    RunOutcome,
    TableFenced,
    Unknown,
)


@dataclass(frozen=True)
class Ack:
    """Done with the message: the row carries the job from here."""


@dataclass(frozen=True)
class Nack:
    """Deliver it again; None: as soon as possible."""

    visible_at: datetime | None = None


@dataclass(frozen=True)
class Postpone:
    """Deliver it again, each time later: it may take hours until the cause is fixed."""


@dataclass(frozen=True)
class LeaveInvisible:
    """Deliver it again when its visibility timeout is over."""


@dataclass(frozen=True)
class Reject:
    """It can never be worked: put it aside with the reason."""

    reason: str


MessageAction: TypeAlias = Ack | Nack | Postpone | LeaveInvisible | Reject


def action_for(outcome: RunOutcome, *, near_receive_limit: bool) -> MessageAction:
    """The reply to a message; `near_receive_limit`: another nack might make it a dead letter.

    A row that is ready or started is found by its due time: then its message is only a hint.
    """
    match outcome:
        case Finished() | Failed() | Duplicate() | Unknown() | NeedsReview() | AwaitingResolution():
            return Ack()
        case OwnershipLost() | Continued():
            return Ack()
        case NotAttempted(row_resends=True):
            return Ack()
        case LeasedElsewhere(until=until) | NotAttempted(until=until):
            return Ack() if near_receive_limit else Nack(until)
        case NotStarted():
            return Nack()
        case TableFenced():
            return Postpone()
        case Conflict(alerted=False) if not near_receive_limit:
            return LeaveInvisible()  # a person is told of it first
        case Conflict(reason=reason) | RowMissing(reason=reason) | InvalidMessage(reason=reason):
            return Reject(reason)
        case InternalError():
            return LeaveInvisible()
        case _:
            assert_never(outcome)
