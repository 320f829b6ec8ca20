"""Text that is safe to show, and times as text that sorts as time does."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

# Bounds rows and alerts.
MAX_REASON_LENGTH: Final = 500


def single_line(text: str, max_length: int = MAX_REASON_LENGTH) -> str:
    """Put text on one line, so that an id cannot forge a second line in an alert or a log."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:max_length])


# Anchored at the start of a word, so that matching stays linear. Few processes need these patterns,
# so they are compiled when first used.
_LETTER: Final = r"[^\s@<>\"',;:()\[\]]"
_ADDRESS: Final = rf"(?<!{_LETTER})({_LETTER}){_LETTER}*@"


def mask_emails(text: str) -> str:
    """Mask the local part of email addresses."""
    return re.sub(_ADDRESS, r"\1***@", text)


# Names of AWS resources, as AWS and its SDK write them in messages. Each alternative ends at a
# character that no other begins with, so that matching stays linear.
_PART: Final = r"[^\s\"'`,;()<>\[\]{}]*"
_HOST: Final = r"[^\s\"'`,;()<>\[\]{}/]*"
_AWS_NAME: Final = (
    rf"\barn:aws[\w-]*:{_PART}"
    rf"|\bhttps?://{_HOST}\.amazonaws\.com{_PART}"
    rf"|\bhttps?://{_HOST}/\d{{12}}/{_PART}"  # a queue, at any endpoint
    r"|\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"  # access keys and principals
    r"|\bTraceback \(most recent call last\)(?s:.*)"
    r"|\b(?P<before>Table: |(?i:account)(?:[ ]?(?i:id))?\W{1,3})(?:\d{12}\b|(?<=Table: )[\w.-]+)"
)


def mask_aws_names(text: str) -> str:
    """Remove ARNs, addresses, table names, account ids and stack traces, as AWS writes them."""
    return re.sub(_AWS_NAME, lambda found: f"{found['before'] or ''}(hidden)", text)


def redacted_line(text: str) -> str:
    """Text for logs: one line, with email addresses masked. Engineers need the names of AWS."""
    return single_line(mask_emails(text))


def support_text(text: str) -> str:
    """Text for support agents, without email addresses and names of AWS."""
    return mask_aws_names(mask_emails(text))


def support_line(text: str) -> str:
    """Text for alerts and outputs: one line for support agents."""
    return single_line(support_text(text))


def reason_line(text: str) -> str:
    """Text for a row: one line, without names of AWS."""
    return single_line(mask_aws_names(text))


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


def format_duration(duration: timedelta) -> str:
    """Format a duration for a sentence, in minutes, hours or days."""
    if duration > timedelta(days=1):
        return f"{duration / timedelta(days=1):g} days"
    minutes = duration.total_seconds() / 60
    return f"{minutes:g} minutes" if minutes < 60 else f"{minutes / 60:g} hours"  # noqa: PLR2004  # an hour


def format_minute(at: datetime) -> str:
    """Format a time for a sentence."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
