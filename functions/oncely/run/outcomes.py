"""How a run of a worker can end, as a closed union; entry points translate it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.ports import JobResult


class DuplicateReason(StrEnum):
    """Why a message was a repetition; a log field and a metric's dimension."""

    FINISHED = "finished"  # it had ended, and the stored answer was given
    IN_PROGRESS = "in_progress"  # someone has it
    CONFLICT = "conflict"  # same key, other business values


@dataclass(frozen=True, kw_only=True)
class _JobOutcome:
    job_key: JobKey
    job_type: str


@dataclass(frozen=True, kw_only=True)
class Finished(_JobOutcome):
    """The effect is in place and recorded."""

    result: JobResult


@dataclass(frozen=True, kw_only=True)
class Failed(_JobOutcome):
    """The provider refused, and that is recorded."""

    reason: str
    result: JobResult


@dataclass(frozen=True, kw_only=True)
class Duplicate(_JobOutcome):
    """Ended before: the first run's answer, unchanged."""

    status: Status
    result: JobResult


@dataclass(frozen=True, kw_only=True)
class Unknown(_JobOutcome):
    """The provider may have acted; the reconciler asks."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class NeedsReview(_JobOutcome):
    """A person must look, and was told."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class AwaitingResolution(_JobOutcome):
    """The reconciler or a person has this job; the row carries it."""

    status: Status


@dataclass(frozen=True, kw_only=True)
class LeasedElsewhere(_JobOutcome):
    """Another worker has it."""

    until: datetime


@dataclass(frozen=True, kw_only=True)
class NotAttempted(_JobOutcome):
    """Certainly no effect; the row is ready again."""

    until: datetime
    reason: str
    credentials_rejected: bool = False
    row_resends: bool = False  # the row is due at `until`, and sends a message then


@dataclass(frozen=True, kw_only=True)
class Continued(_JobOutcome):
    """A long job came further and goes on with a fresh message."""

    progress: JobResult
    sent: bool


@dataclass(frozen=True, kw_only=True)
class OwnershipLost(_JobOutcome):
    """Someone else decided meanwhile; what we learned is kept as evidence."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class RowMissing(_JobOutcome):
    """The provider gave a definite answer, and the row is gone: the message keeps the answer."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class NotStarted(_JobOutcome):
    """Too little time left: nothing was claimed."""


@dataclass(frozen=True, kw_only=True)
class TableFenced(_JobOutcome):
    """The job table may not hold the proofs: nothing was sent, and the message waits."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Conflict(_JobOutcome):
    """Same key, other business values; the first job is untouched."""

    reason: str
    alerted: bool = True  # whether a person was


@dataclass(frozen=True)
class InvalidMessage:
    """No job at all."""

    reason: str


@dataclass(frozen=True)
class InternalError:
    """Our own side failed: nothing is decided, and the message stays in the queue."""

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
