"""Jobs as a file: JSON, or CSV that is safe against formula injection."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from oncely.admin_page.http_api import ShownJob, shown_jobs
from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidRequestError
from oncely.core.text import support_text
from oncely.operate.job_index import UnreadableRow
from oncely.operate.job_queries import JobPage

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


class ExportFormat(StrEnum):
    """The format of an export. The value is the suffix of its file name."""

    CSV = "csv"
    JSON = "json"  # one array

    @classmethod
    def parse(cls, text: str | None) -> "ExportFormat":
        """Parse a query parameter (default: CSV)."""
        try:
            return cls(text or cls.CSV)
        except ValueError:
            raise InvalidRequestError(f"'format' must be one of {', '.join(cls)}") from None

    @property
    def content_type(self) -> str:
        kind = "text/csv" if self is ExportFormat.CSV else "application/json"
        return f"{kind}; charset=utf-8"

    def line(self, row: Mapping[str, Json]) -> str:
        """One job."""
        if self is ExportFormat.CSV:
            return _csv_line([escape_cell(row.get(name)) for name in COLUMNS])
        return json.dumps({name: row.get(name) for name in COLUMNS}, ensure_ascii=False)

    def to_file(self, lines: Sequence[str]) -> str:
        """Return the file with these lines."""
        if self is ExportFormat.CSV:
            return _csv_line(COLUMNS) + "".join(lines)
        return "[" + ",\n".join(lines) + "]\n"


class JobExport(NamedTuple):
    """Exported jobs. If `truncated`, the text may be incomplete."""

    text: str
    truncated: bool
    jobs: tuple[ShownJob, ...]


def export_jobs(
    pages: Iterator[JobPage],
    form: ExportFormat,
    *,
    max_jobs: int,
    max_bytes: int = MAX_EXPORT_BYTES,
) -> JobExport:
    """Write jobs in one format, up to both limits."""
    lines: list[str] = []
    shown: list[ShownJob] = []
    size, cut = 0, False
    for page in pages:
        rows = (*(view.to_summary_json() for view in page.jobs), *map(_unreadable, page.unreadable))
        for row, job in zip(rows, shown_jobs(page), strict=True):
            line = form.line(row)
            size += len(json.dumps(line))  # the response is JSON, which escapes it
            if len(shown) == max_jobs or size > max_bytes:
                return JobExport(form.to_file(lines), truncated=True, jobs=tuple(shown))
            lines.append(line)
            shown.append(job)
        cut = page.cursor is not None
    return JobExport(form.to_file(lines), truncated=cut, jobs=tuple(shown))


def _unreadable(row: UnreadableRow) -> dict[str, Json]:
    """A line for a row that cannot be read, so that the export does not silently omit it."""
    return {"job_key": row.job_key, "status": "unreadable", "last_error": support_text(row.reason)}


def _csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


def escape_cell(value: Json) -> str:
    """A value as text. A leading apostrophe disables a formula."""
    return "" if value is None else _FORMULA.sub(r"\1'", str(value))
