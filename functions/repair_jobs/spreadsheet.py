"""Jobs as comma-separated text that no spreadsheet takes for a formula."""

import csv
import io
from collections.abc import Iterator
from itertools import islice
from typing import Final

from oncely.domain.writes import Json
from oncely.services.job_view import JobView

# What one answer of a function can hold, and what it can read in its time.
MOST_EXPORTED: Final = 5_000
COLUMNS: Final = (
    *("job_key", "job_type", "status", "status_words", "headline", "subject", "customer_id"),
    *("amount", "currency", "amount_words", "provider_ref", "request_id", "attempts"),
    *("last_error", "last_try", "next_look", "since", "created_at", "updated_at"),
)
# A cell that begins with one of these is run by Excel and its like.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def spreadsheet(jobs: Iterator[JobView], *, most: int) -> tuple[str, bool]:
    """The text, and whether there were more jobs than it holds."""
    sheet = io.StringIO()
    rows = csv.writer(sheet)
    rows.writerow(COLUMNS)
    for view in islice(jobs, most):
        told = view.as_short_json()
        rows.writerow([cell(told[name]) for name in COLUMNS])
    return sheet.getvalue(), next(jobs, None) is not None


def cell(value: Json) -> str:
    """A value as text; an apostrophe keeps a formula from being one."""
    if value is None:
        return ""
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
