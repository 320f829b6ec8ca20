"""Parses records of the job table's stream as row changes."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from oncely.core.errors import UnreadableRowError
from oncely.core.job_row import JobRow
from oncely.core.keys import is_job_type
from oncely.core.row_items import deserialize_job
from oncely.core.store import is_unmarked
from oncely.history.lines import HistoryLine, history_line, unreadable_line

# The stream's name for the service that removes expired rows.
_TTL: Final = "dynamodb.amazonaws.com"


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """One write of one row. `unreadable` if this version cannot read the new row."""

    job_key: str
    at: datetime  # when it was written, to the second
    old: JobRow | None = None
    new: JobRow | None = None
    expired: bool = False
    unreadable: bool = False
    version: int | None = None  # of an unreadable row, if known

    def to_history_line(self, generation: str) -> HistoryLine | None:
        """The history line of this write. Returns None if the history does not record it."""
        if self.unreadable:
            return unreadable_line(
                self.job_key, generation=generation, at=self.at, version=self.version
            )
        return history_line(
            self.old, self.new, generation=generation, at=self.at, expired=self.expired
        )


def row_changes(records: Sequence[Mapping[str, Any]]) -> list[RowChange]:
    """The changes of job rows, without other items of the table, such as leases."""
    return [_to_row_change(one) for one in records if is_job_type(_key(one).partition(":")[0])]


def batch_name(records: Sequence[Mapping[str, Any]], *, generation: str) -> str:
    """The name of a batch: the same for a retry, different for every other batch."""
    first, last = (records[place]["dynamodb"]["SequenceNumber"] for place in (0, -1))
    return f"{generation[:8]}-{first}-{last}"


def _key(record: Mapping[str, Any]) -> str:
    return str(record["dynamodb"]["Keys"]["job_key"]["S"])


def _to_row_change(record: Mapping[str, Any]) -> RowChange:
    content = record["dynamodb"]
    key = _key(record)
    at = datetime.fromtimestamp(float(content["ApproximateCreationDateTime"]), UTC)
    old, new = content.get("OldImage"), content.get("NewImage")
    try:
        if new is not None:
            # An unreadable old row may add a line, never lose one.
            return RowChange(
                job_key=key, at=at, old=_deserialize_or_none(old), new=deserialize_job(new)
            )
        before = None if old is None else deserialize_job(old)
        expired = record.get("userIdentity", {}).get("principalId") == _TTL
        return RowChange(job_key=key, at=at, old=before, expired=expired)
    except UnreadableRowError:
        if is_unmarked(new or old or {}):
            return RowChange(job_key=key, at=at)
        return RowChange(job_key=key, at=at, unreadable=True, version=row_version(new or old or {}))


def _deserialize_or_none(row: Mapping[str, Any] | None) -> JobRow | None:
    with suppress(UnreadableRowError):
        return None if row is None else deserialize_job(row)
    return None


def row_version(row: Mapping[str, Any]) -> int | None:
    """The version of a row that cannot be read as a whole."""
    try:
        return int(row["version"]["N"])
    except (LookupError, TypeError, ValueError):
        return None
