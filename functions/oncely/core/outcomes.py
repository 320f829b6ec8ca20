"""The outcomes of a run, as a closed union that entry points translate."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status, WaitKind
from oncely.core.store import JobResult


class RejectCause(StrEnum):
    """Why a message is moved to the rejects queue."""

    INVALID = "invalid"  # not a valid job message
    CONFLICT = "conflict"  # same key, other business values: the first job was not changed
    ROW_MISSING = "row_missing"  # the outcome is definite, but the row is gone: it is kept here


class NotRunCause(StrEnum):
    """Why nothing was decided about a message, which stays in the queue."""

    NO_TIME = "no_time"  # not enough time was left: nothing was claimed
    TABLE_BLOCKED = "table_blocked"  # the job table may not hold the proofs: nothing was sent
    ERROR = "error"  # Oncely failed


@dataclass(frozen=True, kw_only=True)
class _JobOutcome:
    job_key: JobKey
    job_type: str


@dataclass(frozen=True, kw_only=True)
class _ExplainedOutcome(_JobOutcome):
    reason: str


@dataclass(frozen=True, kw_only=True)
class Ended(_ExplainedOutcome):
    """This run ended the job as finished, failed or cancelled, and that is recorded."""

    status: Status
    result: JobResult


@dataclass(frozen=True, kw_only=True)
class Parked(_ExplainedOutcome):
    """The job waits and certainly nothing is open: it can run again from `until` on."""

    until: datetime
    kind: WaitKind
    redeliver: bool  # with this message; otherwise the row sends another one
    progress: JobResult | None = None  # of a long job


class Unknown(_ExplainedOutcome):
    """The effect may have happened; the reconciler looks it up."""


class NeedsReview(_ExplainedOutcome):
    """An operator must decide, and was alerted."""


@dataclass(frozen=True, kw_only=True)
class Duplicate(_JobOutcome):
    """The job had ended, with the first run's result, or the reconciler or an operator has it."""

    status: Status
    result: JobResult


@dataclass(frozen=True, kw_only=True)
class LeasedElsewhere(_JobOutcome):
    """Another worker owns it."""

    until: datetime


class OwnershipLost(_ExplainedOutcome):
    """Another owner decided first; our outcome is kept as evidence."""


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """No retry of this message can help."""

    cause: RejectCause
    reason: str
    job_key: JobKey | None = None  # None if the message is not valid
    job_type: str | None = None
    alerted: bool = True  # whether operators were alerted about a conflict


@dataclass(frozen=True, kw_only=True)
class NotRun:
    """Nothing was decided, and the message is redelivered."""

    cause: NotRunCause
    reason: str | None = None
    job_key: JobKey | None = None  # None if Oncely failed
    job_type: str | None = None
    error: Exception | None = None


RunOutcome: TypeAlias = (
    Ended
    | Parked
    | Unknown
    | NeedsReview
    | Duplicate
    | LeasedElsewhere
    | OwnershipLost
    | Rejected
    | NotRun
)
