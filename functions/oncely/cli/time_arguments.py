"""Times as people give them: `24h` ago, or a date."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from oncely.cli.exits import CommandError, ExitCode
from oncely.domain.text import parse_time

_DURATION: Final = re.compile(r"(\d{1,6})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_duration(text: str) -> timedelta:
    """`90m` is an hour and a half."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise CommandError(
            f"{text!r} is no time span: write 30s, 90m, 24h, 7d or 2w.", ExitCode.USAGE
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def parse_time_argument(text: str, *, now: datetime) -> datetime:
    """`24h` is that long ago; anything else is a time in UTC, such as 2026-11-16T03:00."""
    if _DURATION.fullmatch(text.strip()):
        try:
            return now - parse_duration(text)
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return parse_time(text.strip())
    except ValueError:
        raise CommandError(
            f"{text!r} is no time: write 24h (ago), 2026-11-16 or 2026-11-16T03:00.", ExitCode.USAGE
        ) from None


def format_age(at: datetime, *, now: datetime) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = int((now - at).total_seconds())
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{max(seconds, 0)} s"
