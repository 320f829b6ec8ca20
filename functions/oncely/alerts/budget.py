"""The alert budget: the kinds of alerts, and how many of each are sent in an hour."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey, job_type_of

# Every job type has a dot, so no job key can begin like this.
ALERT_KEY_PREFIX: Final = "alerts:"
# From the first alert of a kind, so that a burst cannot straddle two windows.
ALERT_WINDOW: Final = timedelta(hours=1)
# Summaries of reviews in a window. After them, the reviews stay due until it ends.
MAX_SUMMARIES: Final = 10
# The same message can return from a queue and its dead letter queue for 28 days at most.
ALERT_ONCE_FOR: Final = timedelta(days=28)
# Enough to tell two reasons apart. What follows is often a provider's own text.
_MAX_REASON_WORDS: Final = 10
_PUNCTUATION: Final = ".,;:!?'\"()[]{}<>"
_ID: Final = "…"


class AlertCause(StrEnum):
    """What an alert reports. The values are stored."""

    REVIEW = "review"
    SUMMARY = "summary"  # of reviews without an alert of their own
    CONFLICT = "conflict"
    ORPHANED_OUTCOME = "orphaned_outcome"
    DEAD_LETTER = "dead_letter"
    FORGED_ROW = "forged_row"
    LATER_CHANGE = "later_change"
    IGNORED_RUN_AT = "ignored_run_at"


@dataclass(frozen=True, kw_only=True)
class AlertKind:
    """The alerts that share one budget: the same cause, job type, and reason without ids."""

    cause: AlertCause
    job_type: str = ""
    reason: str = ""

    @property
    def key(self) -> str:
        """The key of its current window."""
        reason = hashlib.sha256(self.reason.encode()).hexdigest()[:12]
        return f"{ALERT_KEY_PREFIX}{self.cause}:{self.job_type}:{reason}"

    def key_of_job(self, name: str) -> str:
        """The key of the reservation that keeps an alert of one job from being repeated."""
        return f"{self.key}:{name}"


@dataclass(frozen=True, kw_only=True)
class CountedAlert:
    """An alert as it was counted in the window of its kind."""

    number: int  # from 1
    until: datetime  # when the window ends
    counted_before: int = 0  # in the last window, if this alert opened a new one


class AlertDelivery(StrEnum):
    """The result of an alert."""

    DELIVERED = "delivered"
    NOT_DUE = "not due"  # already delivered, or reserved by another process
    OVER_BUDGET = "over budget"  # a review stays due, and a sweep sends a summary
    FAILED = "not delivered"  # the job stays due, and a later sweep retries

    @property
    def has_failed(self) -> bool:
        """Whether the alert could not be delivered."""
        return self is AlertDelivery.FAILED


def review_kind(job: JobRow) -> AlertKind:
    """The kind of a review's alert."""
    values = (str(value) for value in job.message.values())
    ids = {*_ids(job.job_key), *values, job.subject, job.customer_id, job.provider_ref}
    reason = without_ids(job.last_error or "", ids)
    return AlertKind(cause=AlertCause.REVIEW, job_type=job.job_type, reason=reason)


def kind_of_key(cause: AlertCause, key: JobKey, reason: str = "") -> AlertKind:
    """The kind of an alert about a job whose row was not read."""
    return AlertKind(cause=cause, job_type=job_type_of(key), reason=without_ids(reason, _ids(key)))


def without_ids(reason: str, ids: Collection[str | None]) -> str:
    """The reason without ids, numbers and addresses, so that equal causes have equal text."""
    words: list[str] = []
    for word in reason.split():
        bare = word.strip(_PUNCTUATION)
        is_id = bare in ids or "@" in bare or any(letter.isdigit() for letter in bare)
        if not is_id or words[-1:] != [_ID]:
            words.append(_ID if is_id else word)
    return " ".join(words[:_MAX_REASON_WORDS])


def _ids(key: JobKey) -> set[str]:
    """The business ids of a key: of `payment.charge:order_abc`, `order_abc` and `abc`."""
    parts = key.split(":")[1:]
    return {key, *parts, *(part.partition("_")[2] for part in parts)} - {""}


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A message to the operator: what happened, to which job, and what to do next."""

    subject: str
    text: str
    kind: AlertKind | None = None  # None if the budget does not apply, as for a summary
    names: tuple[str, ...] = ()  # the job keys, or the ids of messages without one
    once: bool = False  # one alert per job: nothing else keeps it from being repeated
