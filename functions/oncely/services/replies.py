"""What becomes of a queue message, given how its job went."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, assert_never

from oncely.services.outcomes import (
    Broken,
    Conflict,
    Continued,
    Duplicate,
    Failed,
    Fenced,
    Finished,
    HeldElsewhere,
    Invalid,
    NeedsReview,
    NothingSent,
    NotStarted,
    Orphaned,
    Outcome,
    OwnershipLost,
    Parked,
    Unknown,
)


@dataclass(frozen=True)
class Ack:
    """Done with the message: the row carries the job from here."""


@dataclass(frozen=True)
class HandBack:
    """Deliver it again; None: as soon as possible."""

    visible_at: datetime | None = None


@dataclass(frozen=True)
class Postpone:
    """Deliver it again, each time later: it may take hours until the cause is fixed."""


@dataclass(frozen=True)
class Leave:
    """Deliver it again when its visibility timeout is over."""


@dataclass(frozen=True)
class Reject:
    """It can never be worked: put it aside with the reason."""

    reason: str


Reply: TypeAlias = Ack | HandBack | Postpone | Leave | Reject


def reply_to(outcome: Outcome, *, last_receives: bool) -> Reply:
    """The reply to a message; `last_receives` when another hand-back might end in the dead letters.

    A row that is ready or started is found by its due time: then its message is only a hint.
    """
    match outcome:
        case Finished() | Failed() | Duplicate() | Unknown() | NeedsReview() | Parked():
            return Ack()
        case OwnershipLost() | Continued():
            return Ack()
        case NothingSent(row_resends=True):
            return Ack()
        case HeldElsewhere(until=until) | NothingSent(until=until):
            return Ack() if last_receives else HandBack(until)
        case NotStarted():
            return HandBack()
        case Fenced():
            return Postpone()
        case Conflict(told=False) if not last_receives:
            return Leave()  # a person is told of it first
        case Conflict(reason=reason) | Orphaned(reason=reason) | Invalid(reason=reason):
            return Reject(reason)
        case Broken():
            return Leave()
        case _:
            assert_never(outcome)
