"""Jobs as CSV, with cells that no spreadsheet runs as a formula."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from oncely.domain.effect_outcomes import Json
from oncely.domain.text import mask_emails
from oncely.operate.job_queries import JobPage
from oncely.ports import UnreadableRow

# What the function can read before its timeout.
MAX_EXPORTED_JOBS: Final = 5_000
# A Lambda response holds 6 MB as JSON, headers included.
MAX_EXPORT_BYTES: Final = 5_500_000
COLUMNS: Final = (
    *("job_key", "job_type", "status", "status_label", "headline", "subject", "customer_id"),
    *("amount", "currency", "amount_label", "provider_ref", "request_id", "attempts"),
    *("last_error", "claimed_at", "next_check_at", "since", "created_at", "updated_at"),
)
# Spreadsheets run a cell that starts with one of these. Where a comma is the decimal separator,
# they also split cells at semicolons, so every part of a cell is checked.
_FORMULA: Final = re.compile(r"(^|[;\t\r\n])(?=[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n])")


def to_csv(
    pages: Iterator[JobPage], *, max_jobs: int, max_bytes: int = MAX_EXPORT_BYTES
) -> tuple[str, bool]:
    """The text, and whether it may be incomplete."""
    lines: list[str] = []
    size, cut = 0, False
    for page in pages:
        rows = (*(view.to_summary_json() for view in page.jobs), *map(_unreadable, page.unreadable))
        for row in rows:
            line = _csv_line([escape_cell(row.get(name)) for name in COLUMNS])
            size += len(json.dumps(line))
            if len(lines) == max_jobs or size > max_bytes:
                return "".join((_csv_line(COLUMNS), *lines)), True
            lines.append(line)
        cut = page.cursor is not None
    return "".join((_csv_line(COLUMNS), *lines)), cut


def _unreadable(row: UnreadableRow) -> dict[str, Json]:
    """A line for a row that cannot be read, so that the export does not silently omit it."""
    return {"job_key": row.job_key, "status": "unreadable", "last_error": mask_emails(row.reason)}


def _csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


def escape_cell(value: Json) -> str:
    """A value as text. An apostrophe disarms a formula."""
    return "" if value is None else _FORMULA.sub(r"\1'", str(value))
