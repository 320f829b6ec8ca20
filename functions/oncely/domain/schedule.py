"""Jobs that run later: the time in a message, and how a later message changes it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from oncely.domain.decisions import MESSAGE_GRACE
from oncely.domain.effect_outcomes import Json
from oncely.domain.errors import InvalidMessageError
from oncely.domain.jobs import Decision, Job
from oncely.domain.lifecycle import Event
from oncely.domain.text import format_minute, truncate_to_milliseconds

# A later time is probably a typo in the year.
MAX_DELAY: Final = timedelta(days=2 * 365)


def later_run_at(run_at: datetime | None, now: datetime) -> datetime | None:
    """The time to wait for, as a row holds it. Returns None if the job may run now."""
    if run_at is None or run_at <= now:
        return None
    if run_at - now > MAX_DELAY:
        raise InvalidMessageError(
            f"run_at is more than {MAX_DELAY.days} days ahead: correct it, or send it later"
        )
    return truncate_to_milliseconds(run_at.astimezone(UTC))


def on_early_message(
    row: Job,
    message: Mapping[str, Json],
    *,
    run_at: datetime | None,
    sent_at: datetime,
    now: datetime,
) -> Decision | None:
    """Change the time of a job to the one that its newest message sets.

    Otherwise make the row due when it may run. Returns None if neither changes anything.
    """
    run_at = run_at and truncate_to_milliseconds(run_at)
    if run_at is not None and run_at != row.run_at and _takes_time(row, sent_at):
        later = later_run_at(run_at, now)
        return Decision(
            event=Event.RESCHEDULE,
            reason=f"a message set its run time: {format_minute(run_at)}",
            changes={
                "run_at": later,
                "scheduled_at": sent_at,
                # Until a worker has claimed it, the newest message counts.
                "message": dict(message),
                "due_at": later or now + MESSAGE_GRACE,
            },
        )
    if row.runs_later(now) and row.due_at != row.run_at:
        return Decision(
            event=Event.RESCHEDULE,
            reason="it waits for its run time",
            changes={"due_at": row.run_at},
        )
    return None


def _takes_time(row: Job, sent_at: datetime) -> bool:
    """Whether no worker has claimed it, and no message that was sent later has set its time.

    Without the second part, a redelivered message would bring its old time back.
    """
    is_newest = row.scheduled_at is None or sent_at > row.scheduled_at
    return is_newest and not row.was_claimed and row.allows(Event.RESCHEDULE)
