"""The ended row as proof that its job ran: how long it stays, and what it owes before that."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event
from oncely.domain.profiles import RetrySafety

# Longer than a year, so that a yearly replay or audit still finds the row.
PROOF_RETENTION: Final = timedelta(days=400)
# Books are kept for years, and "was I charged twice?" is asked of them.
MONEY_RETENTION: Final = timedelta(days=7 * 365)
# The stream publishes within seconds; a sweep looks at what it missed after this.
PUBLISH_GRACE: Final = timedelta(minutes=5)
# A version that was rolled back is deployed again within this time, or is not.
ROLLBACK_GRACE: Final = timedelta(days=1)


def default_retention(
    safety: RetrySafety, *, takes_money: bool, row_retention: timedelta | None
) -> timedelta:
    """How long an ended row stays if its contract does not say; None: the stage does not either."""
    if safety is RetrySafety.NATURAL and row_retention is not None:
        return row_retention
    return MONEY_RETENTION if takes_money else PROOF_RETENTION


def finalize_if_ended(
    before: Job, after: Job, *, retention: timedelta, must_publish: bool, now: datetime
) -> Job:
    """The row that a write leads to: a job that ends by it expires, or owes something first.

    A row that owes stays due as it was, so that the index has nothing to move; the write that
    clears the debt sets the expiry.
    """
    if before.ended or not after.ended:
        return after
    if must_publish:
        return replace(after, due_at=after.due_at or now + PUBLISH_GRACE, expires_at=None)
    return replace(after, due_at=None, expires_at=expiry_time(now, retention))


def awaits_publishing(job: Job) -> bool:
    """Whether an ended job has follow-ups or an event that may not be sent yet."""
    return job.ended and job.due_at is not None


def mark_published(job: Job, *, retention: timedelta, now: datetime) -> Job:
    """The row after everything that it owed was sent: it may expire. No line of evidence for it."""
    return replace(
        job, version=job.version + 1, due_at=None, expires_at=expiry_time(now, retention)
    )


def publishable_without_follow_ups(job: Job, now: datetime) -> bool:
    """Whether an end whose follow-ups are not known here is cleared without them.

    A person closed it, or the version that knew them did not come back for a day.
    """
    moves = [entry.event for entry in job.evidence if entry.from_status != entry.to_status]
    return moves[-1:] in ([Event.RESOLVE_FINISHED], [Event.RESOLVE_FAILED]) or (
        now - job.updated_at >= ROLLBACK_GRACE
    )


def expiry_time(now: datetime, retention: timedelta) -> datetime:
    """When a row that ends now may go."""
    # Whole seconds, as a row keeps them: else a lost reply could not be told from a lost row.
    return (now + retention).replace(microsecond=0)
