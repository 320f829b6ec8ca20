"""How a run of a worker can end, as a closed union; entry points translate it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.ports import Result


class Same(StrEnum):
    """Why a message was a repetition; a log field and a metric's dimension."""

    FINISHED = "finished"  # it had ended, and the stored answer was given
    IN_PROGRESS = "in_progress"  # someone has it
    CONFLICT = "conflict"  # same key, other business values


@dataclass(frozen=True, kw_only=True)
class _OfJob:
    job_key: JobKey
    job_type: str


@dataclass(frozen=True, kw_only=True)
class Finished(_OfJob):
    """The effect is in place and recorded."""

    result: Result


@dataclass(frozen=True, kw_only=True)
class Failed(_OfJob):
    """The provider refused, and that is recorded."""

    reason: str
    result: Result


@dataclass(frozen=True, kw_only=True)
class Duplicate(_OfJob):
    """Ended before: the first run's answer, unchanged."""

    status: Status
    result: Result


@dataclass(frozen=True, kw_only=True)
class Unknown(_OfJob):
    """The provider may have acted; the reconciler asks."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class NeedsReview(_OfJob):
    """A person must look, and was told."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Parked(_OfJob):
    """The reconciler or a person has this job; the row carries it."""

    status: Status


@dataclass(frozen=True, kw_only=True)
class HeldElsewhere(_OfJob):
    """Another worker has it."""

    until: datetime


@dataclass(frozen=True, kw_only=True)
class NothingSent(_OfJob):
    """Certainly no effect; the row is ready again."""

    until: datetime
    reason: str
    alarm: bool = False
    row_resends: bool = False  # the row is due at `until`, and sends a message then


@dataclass(frozen=True, kw_only=True)
class Continued(_OfJob):
    """A long job came further and goes on with a fresh message."""

    progress: Result
    sent: bool


@dataclass(frozen=True, kw_only=True)
class OwnershipLost(_OfJob):
    """Someone else decided meanwhile; what we learned is kept as evidence."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Orphaned(_OfJob):
    """The provider gave a definite answer, and the row is gone: the message keeps the answer."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class NotStarted(_OfJob):
    """Too little time left: nothing was claimed."""


@dataclass(frozen=True, kw_only=True)
class Fenced(_OfJob):
    """The job table may not hold the proofs: nothing was sent, and the message waits."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Conflict(_OfJob):
    """Same key, other business values; the first job is untouched."""

    reason: str
    told: bool = True  # whether a person was


@dataclass(frozen=True)
class Invalid:
    """No job at all."""

    reason: str


@dataclass(frozen=True)
class Broken:
    """Our own side failed: nothing is decided, and the message stays in the queue."""

    error: Exception


Outcome: TypeAlias = (
    Finished
    | Failed
    | Duplicate
    | Unknown
    | NeedsReview
    | Parked
    | HeldElsewhere
    | NothingSent
    | Continued
    | OwnershipLost
    | Orphaned
    | NotStarted
    | Fenced
    | Conflict
    | Invalid
    | Broken
)
