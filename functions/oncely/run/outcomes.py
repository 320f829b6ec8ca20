"""The outcomes of a run, as a closed union that entry points translate."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from oncely.core.job_row import Decision, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.results import JobResult


class DuplicateReason(StrEnum):
    """Why a message was a duplicate; a log field and a metric dimension."""

    FINISHED = "finished"  # the job had ended; the stored result was returned
    IN_PROGRESS = "in_progress"  # another worker, the reconciler or an operator handles it
    CONFLICT = "conflict"  # same key, other business values


@dataclass(frozen=True, kw_only=True)
class _JobOutcome:
    job_key: JobKey
    job_type: str


@dataclass(frozen=True, kw_only=True)
class _ExplainedOutcome(_JobOutcome):
    reason: str


@dataclass(frozen=True, kw_only=True)
class Finished(_JobOutcome):
    """The effect happened and is recorded."""

    result: JobResult


@dataclass(frozen=True, kw_only=True)
class Failed(_JobOutcome):
    """The provider declined, and that is recorded."""

    reason: str
    result: JobResult


class Cancelled(_ExplainedOutcome):
    """The cancelled job is closed at the provider, and that is recorded."""


@dataclass(frozen=True, kw_only=True)
class Duplicate(_JobOutcome):
    """The job had ended: the first run's result."""

    status: Status
    result: JobResult


class Unknown(_ExplainedOutcome):
    """The effect may have happened; the reconciler looks it up."""


class NeedsReview(_ExplainedOutcome):
    """An operator must decide, and was alerted."""


@dataclass(frozen=True, kw_only=True)
class AwaitingResolution(_JobOutcome):
    """The reconciler or an operator handles this job."""

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
class Waiting(_JobOutcome):
    """Its business rows are not there yet; the row waits for them."""

    until: datetime
    reason: str
    row_resends: bool  # the row is due at `until` and resends the message


@dataclass(frozen=True, kw_only=True)
class Held(_JobOutcome):
    """An operator paused it, or the gate of its provider is closed. Nothing was sent."""

    until: datetime
    reason: str
    row_resends: bool  # a row is due and resends the message once the gate opens


@dataclass(frozen=True, kw_only=True)
class Scheduled(_JobOutcome):
    """Its run time is in the future. Its row sends a message then."""

    until: datetime


@dataclass(frozen=True, kw_only=True)
class Continued(_JobOutcome):
    """A long job made progress and continues with a new message."""

    progress: JobResult
    sent: bool


class OwnershipLost(_ExplainedOutcome):
    """Another owner decided first; our outcome is kept as evidence."""


class RowMissing(_ExplainedOutcome):
    """The outcome is definite, but the row is gone: the rejected message keeps the outcome."""


class NotStarted(_JobOutcome):
    """Not enough time was left: nothing was claimed."""


class TableFenced(_ExplainedOutcome):
    """The job table may not hold the proofs: nothing was sent, and the message is redelivered."""


@dataclass(frozen=True, kw_only=True)
class Conflict(_ExplainedOutcome):
    """Same key, other business values. The first job was not changed."""

    alerted: bool = True  # whether operators were alerted


@dataclass(frozen=True)
class InvalidMessage:
    """Not a valid job message."""

    reason: str


@dataclass(frozen=True)
class InternalError:
    """Oncely failed: nothing was decided, and the message stays in the queue."""

    error: Exception


RunOutcome: TypeAlias = (
    Finished
    | Failed
    | Cancelled
    | Duplicate
    | Unknown
    | NeedsReview
    | AwaitingResolution
    | LeasedElsewhere
    | NotAttempted
    | Waiting
    | Held
    | Scheduled
    | Continued
    | OwnershipLost
    | RowMissing
    | NotStarted
    | TableFenced
    | Conflict
    | InvalidMessage
    | InternalError
)


def ready_outcome(job: JobRow, decision: Decision) -> Waiting | NotAttempted:
    """The outcome of a job that is ready to run again."""
    fields: Any = {
        "job_key": job.job_key,
        "job_type": job.job_type,
        "until": decision.run_at or job.updated_at,
        "reason": decision.reason,
        "row_resends": decision.resend_when_due,
    }
    if decision.event is Event.WAIT:
        return Waiting(**fields)
    return NotAttempted(**fields, credentials_rejected=decision.credentials_rejected)
