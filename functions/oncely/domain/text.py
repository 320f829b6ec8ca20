"""Text that others wrote, made safe to show: one line, printable, of bounded length."""

import re
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
