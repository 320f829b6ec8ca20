"""Run times: how far ahead one is honored.

A job can be asked to run later. That is useful for a renewal and dangerous for a payment, because
a time in 2028 holds a charge back as well as losing its message would. So each contract says how
far ahead it honors a time (`schedule_limit`). A job that moves money honors none by default.
The limit is checked where a time is set, and again where it is read: IAM limits which attributes a
producer may insert, not their values.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from oncely.core.errors import InvalidMessageError
from oncely.core.text import format_duration, truncate_to_milliseconds

# Of jobs that move no money. A later time is probably a typo in the year.
DEFAULT_SCHEDULE_LIMIT: Final = timedelta(days=365)
# The proof of a job that was cancelled before its time is kept this much longer at most.
MAX_SCHEDULE_LIMIT: Final = timedelta(days=10 * 365)
# A producer checks the limit by its own clock, which may be ahead. Its job must not run early.
SCHEDULE_TOLERANCE: Final = timedelta(hours=1)


class Clock(Protocol):
    """The current time, in UTC."""

    def now(self) -> datetime: ...


def latest_run_at(now: datetime, schedule_limit: timedelta) -> datetime:
    """The latest run time that is honored: none in the future if the limit is 0."""
    return now + schedule_limit + SCHEDULE_TOLERANCE if schedule_limit else now


def later_run_at(
    run_at: datetime | None, *, job_type: str, schedule_limit: timedelta, now: datetime
) -> datetime | None:
    """The time to wait for, as a row holds it. Returns None if the job may run now.

    Raises InvalidMessageError if the time is further ahead than the contract honors.
    """
    if run_at is None or run_at <= now:
        return None
    if not schedule_limit:
        raise InvalidMessageError(
            f"{job_type} honors no run_at: enqueue it when it should run, or set schedule_limit on "
            "its contract"
        )
    if run_at - now > schedule_limit:
        raise InvalidMessageError(
            f"run_at is more than {format_duration(schedule_limit)} ahead: correct it, or send it "
            "later"
        )
    return truncate_to_milliseconds(run_at.astimezone(UTC))
