"""The outcomes of a run, as a closed union that entry points translate."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.ports import JobResult


class DuplicateReason(StrEnum):
    """Why a message was a duplicate; a log field and a metric dimension."""

    FINISHED = "finished"  # the job had ended; the stored result was returned
    IN_PROGRESS = "in_progress"  # another worker, the reconciler or an operator has it
    CONFLICT = "conflict"  # same key, other business values


@dataclass(frozen=True, kw_only=True)
class _JobOutcome:
    job_key: JobKey
    job_type: str


@dataclass(frozen=True, kw_only=True)
class Finished(_JobOutcome):
    """The effect happened and is recorded."""

    result: JobResult


@dataclass(frozen=True, kw_only=True)
class Failed(_JobOutcome):
    """The provider declined, and that is recorded."""

    reason: str
    result: JobResult


@dataclass(frozen=True, kw_only=True)
class Duplicate(_JobOutcome):
    """The job had ended: the first run's result."""

    status: Status
    result: JobResult


@dataclass(frozen=True, kw_only=True)
class Unknown(_JobOutcome):
    """The effect may have happened; the reconciler looks it up."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class NeedsReview(_JobOutcome):
    """An operator must decide, and was alerted."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class AwaitingResolution(_JobOutcome):
    """The reconciler or an operator has this job."""

    status: Status


@dataclass(frozen=True, kw_only=True)
class LeasedElsewhere(_JobOutcome):
    """Another worker owns it."""

    until: datetime


@dataclass(frozen=True, kw_only=True)
class NotAttempted(_JobOutcome):
    """Certainly no effect; the row is ready again."""

    until: datetime
    reason: str
    credentials_rejected: bool = False
    row_resends: bool = False  # the row is due at `until` and resends the message


@dataclass(frozen=True, kw_only=True)
class Continued(_JobOutcome):
    """A long job made progress and continues with a new message."""

    progress: JobResult
    sent: bool


@dataclass(frozen=True, kw_only=True)
class OwnershipLost(_JobOutcome):
    """Another owner decided first; our outcome is kept as evidence."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class RowMissing(_JobOutcome):
    """The outcome is definite, but the row is gone: the rejected message keeps the outcome."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class NotStarted(_JobOutcome):
    """Too little time was left: nothing was claimed."""


@dataclass(frozen=True, kw_only=True)
class TableFenced(_JobOutcome):
    """The job table may not hold the proofs: nothing was sent, and the message is redelivered."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Conflict(_JobOutcome):
    """Same key, other business values. The first job was not changed."""

    reason: str
    alerted: bool = True  # whether operators were


@dataclass(frozen=True)
class InvalidMessage:
    """Not a valid job message."""

    reason: str


@dataclass(frozen=True)
class InternalError:
    """Our side failed: nothing was decided, and the message stays in the queue."""

    error: Exception


RunOutcome: TypeAlias = (
    Finished
    | Failed
    | Duplicate
    | Unknown
    | NeedsReview
    | AwaitingResolution
    | LeasedElsewhere
    | NotAttempted
    | Continued
    | OwnershipLost
    | RowMissing
    | NotStarted
    | TableFenced
    | Conflict
    | InvalidMessage
    | InternalError
)
