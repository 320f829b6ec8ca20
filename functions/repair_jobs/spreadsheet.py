"""Jobs as comma-separated text that no spreadsheet takes for a formula."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from oncely.domain.writes import Json
from oncely.services.inspect import Page

# What a function can read in its time.
MOST_EXPORTED: Final = 5_000
# An answer of a function holds 6 MB as JSON, and its headers.
MOST_BYTES: Final = 5_500_000
COLUMNS: Final = (
    *("job_key", "job_type", "status", "status_words", "headline", "subject", "customer_id"),
    *("amount", "currency", "amount_words", "provider_ref", "request_id", "attempts"),
    *("last_error", "last_try", "next_look", "since", "created_at", "updated_at"),
)
# A cell that begins with one of these is run by Excel and its like; where a comma is the decimal
# sign, they part cells at semicolons, so each piece of a cell can be such a beginning.
_FORMULA: Final = re.compile(r"(^|[;\t\r\n])(?=[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n])")


def spreadsheet(
    pages: Iterator[Page], *, most: int, most_bytes: int = MOST_BYTES
) -> tuple[str, bool]:
    """The text, and whether there are, or may be, more jobs than it holds."""
    lines: list[str] = []
    size, cut = 0, False
    for page in pages:
        for view in page.jobs:
            told = view.as_short_json()
            line = _line([cell(told[name]) for name in COLUMNS])
            size += len(json.dumps(line))
            if len(lines) == most or size > most_bytes:
                return "".join((_line(COLUMNS), *lines)), True
            lines.append(line)
        cut = page.cursor is not None
    return "".join((_line(COLUMNS), *lines)), cut


def _line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


def cell(value: Json) -> str:
    """A value as text; an apostrophe keeps a formula from being one."""
    return "" if value is None else _FORMULA.sub(r"\1'", str(value))
