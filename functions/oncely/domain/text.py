"""Text that is safe to show, and times as text that sorts as time does."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

# A row must never grow to DynamoDB's 400 kB, nor an alert to a page.
MAX_REASON_LENGTH: Final = 500


def single_line(text: str, max_length: int = MAX_REASON_LENGTH) -> str:
    """What was said, on one line: an id cannot forge a second one in an alert or a log."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:max_length])


# One letter at the start of a run: a long text is gone through once, whatever it holds.
_LETTER: Final = r"[^\s@<>\"',;:()\[\]]"
_ADDRESS: Final = re.compile(rf"(?<!{_LETTER})({_LETTER}){_LETTER}*@")


def mask_emails(text: str) -> str:
    """What was said, without the names in e-mail addresses."""
    return _ADDRESS.sub(r"\1***@", text)


def redacted_line(text: str) -> str:
    """What was said, as logs, alerts and outputs tell it: on one line, and without addresses."""
    return single_line(mask_emails(text))


def format_time(at: datetime) -> str:
    """A time as text."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def truncate_to_milliseconds(at: datetime) -> datetime:
    """A time as a row keeps it: the clock gives no others, and no write may differ from its row.

    Not whole seconds: a second claim may come within a second of the first, and must be later.
    """
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def parse_time(text: object) -> datetime:
    """The time that a text of any ISO spelling means; without a zone it is taken as UTC."""
    try:
        at = datetime.fromisoformat(text)  # type: ignore[arg-type]  # what is no text is refused
    except (TypeError, ValueError):
        # Python's own words repeat the text, which may be secret.
        raise ValueError("a time is ISO text, such as 2026-11-16T03:00:00Z") from None
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time is of the years 1 to 9999, in UTC as well") from None


def time_until_next(at: datetime, interval: timedelta) -> timedelta:
    """How long it is from `at` to the next full `every`, counted from midnight UTC."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return interval - (at - day) % interval


def format_minute(at: datetime) -> str:
    """A time as a person reads it in a sentence."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
