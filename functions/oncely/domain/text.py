"""Text that is safe to show, and times as text that sorts as time does."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

# Bounds rows and alerts.
MAX_REASON_LENGTH: Final = 500


def single_line(text: str, max_length: int = MAX_REASON_LENGTH) -> str:
    """Put text on one line, so that an id cannot forge a second line in an alert or a log."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:max_length])


# Anchored at the start of a word, so that matching stays linear.
_LETTER: Final = r"[^\s@<>\"',;:()\[\]]"
_ADDRESS: Final = re.compile(rf"(?<!{_LETTER})({_LETTER}){_LETTER}*@")


def mask_emails(text: str) -> str:
    """Mask the local part of email addresses."""
    return _ADDRESS.sub(r"\1***@", text)


def redacted_line(text: str) -> str:
    """Text for logs, alerts and outputs: one line, with email addresses masked."""
    return single_line(mask_emails(text))


def format_time(at: datetime) -> str:
    """Format a time in UTC, to the millisecond."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def truncate_to_milliseconds(at: datetime) -> datetime:
    """Cut a time to the precision of a row, so that a write equals the row it reads back.

    Whole seconds would be too coarse: two claims can come within a second.
    """
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def parse_time(text: object) -> datetime:
    """Parse an ISO 8601 time. Without a zone, it is UTC."""
    try:
        at = datetime.fromisoformat(text)  # type: ignore[arg-type]  # what is no text is refused
    except (TypeError, ValueError):
        # Python's own message repeats the text, which may be secret.
        raise ValueError("a time is ISO text, such as 2026-11-16T03:00:00Z") from None
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time is of the years 1 to 9999, in UTC as well") from None


def time_until_next(at: datetime, interval: timedelta) -> timedelta:
    """How long from `at` to the next multiple of `interval` since midnight UTC."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return interval - (at - day) % interval


def format_minute(at: datetime) -> str:
    """Format a time for a sentence."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
