"""What the functions emit: names of metrics, and how each outcome is logged and counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from oncely.domain.text import safe_line
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
    Same,
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
PROVIDER_REFUSES_US: Final = "ProviderRefusesUs"
CONTINUED: Final = "Continued"
OWNERSHIP_LOST: Final = "OwnershipLost"
ROW_GONE: Final = "RowGone"
NOT_STARTED: Final = "NotStarted"
TABLE_REFUSED: Final = "TableRefused"
REJECTED: Final = "Rejected"
BROKEN: Final = "Broken"
REPLY_FAILED: Final = "ReplyFailed"
RESOLVED: Final = "Resolved"
PROVIDER_UNREACHABLE: Final = "ProviderUnreachable"
DEAD_LETTERS: Final = "DeadLetters"
NOT_PUBLISHED: Final = "NotPublished"
NOT_TOLD: Final = "NotTold"
NOT_LOOKED_AT: Final = "NotLookedAt"
OLDEST_UNRESOLVED_AGE: Final = "OldestUnresolvedAge"
SWEEP_DONE: Final = "SweepDone"  # in seconds that it took


@dataclass(frozen=True)
class Told:
    """How an outcome is told: a log event, a metric, and the fields that explain it."""

    event: str
    metric: str
    level: str = "info"
    same: Same | None = None  # set for a repetition, which is neither success nor failure


_TOLD: Final[Mapping[type[Outcome], Told]] = {
    Finished: Told("job finished", FINISHED),
    Failed: Told("job failed", FAILED),
    Duplicate: Told("message deduplicated", DEDUPLICATED, same=Same.FINISHED),
    HeldElsewhere: Told("message deduplicated", DEDUPLICATED, same=Same.IN_PROGRESS),
    Parked: Told("message deduplicated", DEDUPLICATED, same=Same.IN_PROGRESS),
    Conflict: Told("message deduplicated", DEDUPLICATED, "error", same=Same.CONFLICT),
    Unknown: Told("job unknown", UNKNOWN, "warning"),
    NeedsReview: Told("job needs review", NEEDS_REVIEW, "error"),
    NothingSent: Told("nothing sent", NOTHING_SENT, "warning"),
    Continued: Told("job goes on", CONTINUED),
    OwnershipLost: Told("ownership lost", OWNERSHIP_LOST, "warning"),
    Orphaned: Told("row is gone", ROW_GONE, "error"),
    NotStarted: Told("too little time, handed back", NOT_STARTED),
    Fenced: Told("job table refused", TABLE_REFUSED, "error"),
    Invalid: Told("message rejected", REJECTED, "error"),
    Broken: Told("message not worked", BROKEN, "error"),
}


def told(outcome: Outcome) -> Told:
    """The log event and metric of an outcome."""
    if isinstance(outcome, NothingSent) and outcome.alarm:
        return Told("provider refuses us", PROVIDER_REFUSES_US, "error")
    return _TOLD[type(outcome)]


def fields(outcome: Outcome) -> dict[str, Any]:
    """What an outcome carries, under the names that log queries use; never a secret or a card."""
    carried: dict[str, Any] = {}
    for name in ("job_key", "job_type", "reason", "status", "until", "result", "progress"):
        if hasattr(outcome, name):
            value = getattr(outcome, name)
            carried[name] = dict(value) if isinstance(value, Mapping) else str(value)
    if "reason" in carried:  # a provider's words may name an address
        carried["reason"] = safe_line(carried["reason"])
    if isinstance(outcome, Broken):
        carried["error"] = safe_line(f"{type(outcome.error).__name__}: {outcome.error}")
    return carried
