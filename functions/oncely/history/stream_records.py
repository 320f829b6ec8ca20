"""History lines of the records in the job table's stream."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
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


def lines_of_records(records: Sequence[Mapping[str, Any]], *, generation: str) -> list[HistoryLine]:
    """The lines that the history keeps of these changes. Leases and other items have none."""
    of_jobs = (one for one in records if is_job_type(_key(one).partition(":")[0]))
    lines = (_to_line(one, generation) for one in of_jobs)
    return [line for line in lines if line is not None]


def batch_name(records: Sequence[Mapping[str, Any]], *, generation: str) -> str:
    """The name of a batch: the same for a retry, different for every other batch."""
    first, last = (records[place]["dynamodb"]["SequenceNumber"] for place in (0, -1))
    return f"{generation[:8]}-{first}-{last}"


def _key(record: Mapping[str, Any]) -> str:
    return str(record["dynamodb"]["Keys"]["job_key"]["S"])


def _to_line(record: Mapping[str, Any], generation: str) -> HistoryLine | None:
    content = record["dynamodb"]
    at = datetime.fromtimestamp(float(content["ApproximateCreationDateTime"]), UTC)
    old, new = content.get("OldImage"), content.get("NewImage")
    expired = record.get("userIdentity", {}).get("principalId") == _TTL
    try:
        after = None if new is None else deserialize_job(new)
        # An unreadable row before a change may add a line, never lose one.
        before = _deserialize_or_none(old) if after else deserialize_job(old)
    except UnreadableRowError:
        row = new or old
        if is_unmarked(row):
            return None
        return unreadable_line(_key(record), generation=generation, at=at, version=row_version(row))
    return history_line(before, after, generation=generation, at=at, expired=expired)


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
