"""Text that others wrote, made safe to show: one line, printable, of bounded length."""

import re
from typing import Final

# A row must never grow to DynamoDB's 400 kB, nor an alert to a page.
MAX_REASON: Final = 500


def one_line(text: str, longest: int = MAX_REASON) -> str:
    """What was said, on one line: an id cannot forge a second one in an alert or a log."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:longest])


# One letter at the start of a run: a long text is gone through once, whatever it holds.
_LETTER: Final = r"[^\s@<>\"',;:()\[\]]"
_ADDRESS: Final = re.compile(rf"(?<!{_LETTER})({_LETTER}){_LETTER}*@")


def masked(text: str) -> str:
    """What was said, without the names in e-mail addresses."""
    return _ADDRESS.sub(r"\1***@", text)


def safe_line(text: str) -> str:
    """What was said, as logs, alerts and outputs tell it: on one line, and without addresses."""
    return one_line(masked(text))
