"""The names of the metrics that the functions emit; alarms and the dashboard use the same."""

from enum import StrEnum
from typing import Final

NAMESPACE: Final = "Oncely"
FINISHED: Final = "Finished"
FAILED: Final = "Failed"
DEDUPLICATED: Final = "Deduplicated"
UNKNOWN: Final = "Unknown"
NEEDS_REVIEW: Final = "NeedsReview"
NOTHING_SENT: Final = "NothingSent"
WAITING: Final = "Waiting"
HELD: Final = "Held"
PAUSED: Final = "Paused"  # job types, queues and providers
CIRCUIT_OPEN: Final = "CircuitOpen"  # in seconds, by provider
SCHEDULED: Final = "Scheduled"
CANCELLED: Final = "Cancelled"
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
EVENTS_USED: Final = "EventsUsed"  # of providers
EVENTS_DROPPED: Final = "EventsDropped"
WEBHOOK_REFUSED: Final = "WebhookRefused"  # requests that no provider signed
DEAD_LETTERS: Final = "DeadLetters"
PUBLISH_FAILED: Final = "PublishFailed"
ALERT_FAILED: Final = "AlertFailed"
THROTTLED: Final = "Throttled"  # requests to DynamoDB
RESOLVE_FAILED: Final = "ResolveFailed"
OLDEST_UNRESOLVED_AGE: Final = "OldestUnresolvedAge"
SWEEP_FINISHED: Final = "SweepFinished"  # in seconds that it took


class DuplicateReason(StrEnum):
    """Why a message was a duplicate; a log field and a metric dimension."""

    FINISHED = "finished"  # the job had ended; the stored result was returned
    IN_PROGRESS = "in_progress"  # another worker, the reconciler or an operator handles it
    CONFLICT = "conflict"  # same key, other business values
