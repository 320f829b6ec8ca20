"""What the functions emit: names of metrics, and how each outcome is logged and counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from oncely.domain.text import redacted_line
from oncely.run.outcomes import (
    AwaitingResolution,
    Conflict,
    Continued,
    Duplicate,
    DuplicateReason,
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

NAMESPACE: Final = "Oncely"
# Alarms and the dashboard use the same constants.
FINISHED: Final = "Finished"
FAILED: Final = "Failed"
DEDUPLICATED: Final = "Deduplicated"
UNKNOWN: Final = "Unknown"
NEEDS_REVIEW: Final = "NeedsReview"
NOTHING_SENT: Final = "NothingSent"
CREDENTIALS_REJECTED: Final = "CredentialsRejected"
CONTINUED: Final = "Continued"
OWNERSHIP_LOST: Final = "OwnershipLost"
ROW_MISSING: Final = "RowMissing"
NOT_STARTED: Final = "NotStarted"
TABLE_BLOCKED: Final = "TableBlocked"
REJECTED: Final = "Rejected"
PROCESSING_ERROR: Final = "ProcessingError"
ACK_FAILED: Final = "AckFailed"
RESOLVED: Final = "Resolved"
PROVIDER_UNREACHABLE: Final = "ProviderUnreachable"
DEAD_LETTERS: Final = "DeadLetters"
PUBLISH_FAILED: Final = "PublishFailed"
ALERT_FAILED: Final = "AlertFailed"
RESOLVE_FAILED: Final = "ResolveFailed"
OLDEST_UNRESOLVED_AGE: Final = "OldestUnresolvedAge"
SWEEP_FINISHED: Final = "SweepFinished"  # in seconds that it took


@dataclass(frozen=True)
class OutcomeSignal:
    """How an outcome is told: a log event, a metric, and the fields that explain it."""

    event: str
    metric: str
    level: str = "info"
    duplicate_reason: DuplicateReason | None = (
        None  # set for a repetition, which is neither success nor failure
    )


_SIGNALS: Final[Mapping[type[RunOutcome], OutcomeSignal]] = {
    Finished: OutcomeSignal("job finished", FINISHED),
    Failed: OutcomeSignal("job failed", FAILED),
    Duplicate: OutcomeSignal(
        "message deduplicated", DEDUPLICATED, duplicate_reason=DuplicateReason.FINISHED
    ),
    LeasedElsewhere: OutcomeSignal(
        "message deduplicated", DEDUPLICATED, duplicate_reason=DuplicateReason.IN_PROGRESS
    ),
    AwaitingResolution: OutcomeSignal(
        "message deduplicated", DEDUPLICATED, duplicate_reason=DuplicateReason.IN_PROGRESS
    ),
    Conflict: OutcomeSignal(
        "message deduplicated", DEDUPLICATED, "error", duplicate_reason=DuplicateReason.CONFLICT
    ),
    Unknown: OutcomeSignal("job unknown", UNKNOWN, "warning"),
    NeedsReview: OutcomeSignal("job needs review", NEEDS_REVIEW, "error"),
    NotAttempted: OutcomeSignal("nothing sent", NOTHING_SENT, "warning"),
    Continued: OutcomeSignal("job goes on", CONTINUED),
    OwnershipLost: OutcomeSignal("ownership lost", OWNERSHIP_LOST, "warning"),
    RowMissing: OutcomeSignal("row is gone", ROW_MISSING, "error"),
    NotStarted: OutcomeSignal("too little time, handed back", NOT_STARTED),
    TableFenced: OutcomeSignal("job table refused", TABLE_BLOCKED, "error"),
    InvalidMessage: OutcomeSignal("message rejected", REJECTED, "error"),
    InternalError: OutcomeSignal("message not worked", PROCESSING_ERROR, "error"),
}


def signal_for(outcome: RunOutcome) -> OutcomeSignal:
    """The log event and metric of an outcome."""
    if isinstance(outcome, NotAttempted) and outcome.credentials_rejected:
        return OutcomeSignal("provider refuses us", CREDENTIALS_REJECTED, "error")
    return _SIGNALS[type(outcome)]


def log_fields(outcome: RunOutcome) -> dict[str, Any]:
    """What an outcome carries, under the names that log queries use; never a secret or a card."""
    logged: dict[str, Any] = {}
    for name in ("job_key", "job_type", "reason", "status", "until", "result", "progress"):
        if hasattr(outcome, name):
            value = getattr(outcome, name)
            logged[name] = dict(value) if isinstance(value, Mapping) else str(value)
    if "reason" in logged:  # a provider's words may name an address
        logged["reason"] = redacted_line(logged["reason"])
    if isinstance(outcome, InternalError):
        logged["error"] = redacted_line(f"{type(outcome.error).__name__}: {outcome.error}")
    return logged
