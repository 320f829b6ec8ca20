"""What the outcome of a run says, as tests ask for it."""

from typing import TypeGuard

from oncely.core.lifecycle import ENDED, Status, WaitKind
from oncely.core.outcomes import (
    Duplicate,
    Ended,
    NotRun,
    NotRunCause,
    Parked,
    RejectCause,
    Rejected,
)


def _ended_as(outcome: object, status: Status) -> bool:
    return isinstance(outcome, Ended) and outcome.status is status


def is_finished(outcome: object) -> TypeGuard[Ended]:
    return _ended_as(outcome, Status.FINISHED)


def is_failed(outcome: object) -> TypeGuard[Ended]:
    return _ended_as(outcome, Status.FAILED)


def is_cancelled(outcome: object) -> TypeGuard[Ended]:
    return _ended_as(outcome, Status.CANCELLED)


def is_duplicate(outcome: object) -> TypeGuard[Duplicate]:
    """Whether the job had ended before."""
    return isinstance(outcome, Duplicate) and outcome.status in ENDED


def awaits_resolution(outcome: object) -> TypeGuard[Duplicate]:
    """Whether the reconciler or an operator has the job."""
    return isinstance(outcome, Duplicate) and outcome.status not in ENDED


def _waits_for(outcome: object, *kinds: WaitKind) -> bool:
    return isinstance(outcome, Parked) and outcome.kind in kinds


def waits_for_rows(outcome: object) -> TypeGuard[Parked]:
    return _waits_for(outcome, WaitKind.BUSINESS_ROW)


def is_held(outcome: object) -> TypeGuard[Parked]:
    return _waits_for(outcome, WaitKind.GATE)


def is_scheduled(outcome: object) -> TypeGuard[Parked]:
    return _waits_for(outcome, WaitKind.RUN_AT)


def is_continued(outcome: object) -> TypeGuard[Parked]:
    return _waits_for(outcome, WaitKind.NEXT_PART)


def is_retried(outcome: object) -> TypeGuard[Parked]:
    """Whether the job is tried again without having done anything."""
    return _waits_for(outcome, WaitKind.RETRY, WaitKind.SECRET)


def _rejected_as(outcome: object, cause: RejectCause) -> bool:
    return isinstance(outcome, Rejected) and outcome.cause is cause


def is_conflict(outcome: object) -> TypeGuard[Rejected]:
    return _rejected_as(outcome, RejectCause.CONFLICT)


def is_invalid(outcome: object) -> TypeGuard[Rejected]:
    return _rejected_as(outcome, RejectCause.INVALID)


def lost_row(outcome: object) -> TypeGuard[Rejected]:
    return _rejected_as(outcome, RejectCause.ROW_MISSING)


def _not_run_as(outcome: object, cause: NotRunCause) -> bool:
    return isinstance(outcome, NotRun) and outcome.cause is cause


def lacked_time(outcome: object) -> TypeGuard[NotRun]:
    return _not_run_as(outcome, NotRunCause.NO_TIME)


def is_blocked(outcome: object) -> TypeGuard[NotRun]:
    return _not_run_as(outcome, NotRunCause.TABLE_BLOCKED)


def is_error(outcome: object) -> TypeGuard[NotRun]:
    return _not_run_as(outcome, NotRunCause.ERROR)
