"""Jobs as comma-separated text that no spreadsheet takes for a formula."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from oncely.domain.effect_outcomes import Json
from oncely.operate.job_queries import JobPage

# What a function can read in its time.
MAX_EXPORTED_JOBS: Final = 5_000
# An answer of a function holds 6 MB as JSON, and its headers.
MAX_EXPORT_BYTES: Final = 5_500_000
COLUMNS: Final = (
    *("job_key", "job_type", "status", "status_words", "headline", "subject", "customer_id"),
    *("amount", "currency", "amount_label", "provider_ref", "request_id", "attempts"),
    *("last_error", "last_try", "next_check_at", "since", "created_at", "updated_at"),
)
# A cell that begins with one of these is run by Excel and its like; where a comma is the decimal
# sign, they part cells at semicolons, so each piece of a cell can be such a beginning.
_FORMULA: Final = re.compile(r"(^|[;\t\r\n])(?=[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n])")


def to_csv(
    pages: Iterator[JobPage], *, max_jobs: int, max_bytes: int = MAX_EXPORT_BYTES
) -> tuple[str, bool]:
    """The text, and whether there are, or may be, more jobs than it holds."""
    lines: list[str] = []
    size, cut = 0, False
    for page in pages:
        for view in page.jobs:
            summary = view.to_summary_json()
            line = _csv_line([escape_cell(summary[name]) for name in COLUMNS])
            size += len(json.dumps(line))
            if len(lines) == max_jobs or size > max_bytes:
                return "".join((_csv_line(COLUMNS), *lines)), True
            lines.append(line)
        cut = page.cursor is not None
    return "".join((_csv_line(COLUMNS), *lines)), cut


def _csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


def escape_cell(value: Json) -> str:
    """A value as text; an apostrophe keeps a formula from being one."""
    return "" if value is None else _FORMULA.sub(r"\1'", str(value))
