"""Where history lines come from: the job table's stream, or a scan of the table for a backfill."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from oncely.core.aws_errors import translated
from oncely.core.errors import UnreadableRowError
from oncely.core.job_row import JobRow
from oncely.core.keys import is_job_type
from oncely.core.row_items import deserialize_job
from oncely.core.store import is_unmarked
from oncely.history.lines import HistoryLine, history_line, unreadable_line

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# The stream's name for the service that removes expired rows.
_TTL: Final = "dynamodb.amazonaws.com"


@dataclass(frozen=True)
class TableGenerationReader:
    """The generation of the job table: its DynamoDB id, which a restored copy does not share.

    Read once per stream: a replacement table has a new stream.
    """

    client: "DynamoDBClient"
    table: str
    _known: dict[str, str] = field(default_factory=dict)

    def __call__(self, stream_arn: str | None = None) -> str:
        """Return the `TableId` of the table with this stream.

        The records of a stream outlive their table by a day. The table's id is then unknown, so
        the stream's name is returned instead.
        """
        stream = stream_arn or ""
        if stream not in self._known:
            table_id, latest = self._describe()
            is_current = stream_arn is None or stream_arn == latest
            self._known[stream] = table_id if is_current else f"stream-{stream.rpartition('/')[2]}"
        return self._known[stream]

    def _describe(self) -> tuple[str, str | None]:
        check = "that it exists and that dynamodb:DescribeTable is granted"
        with translated("the job table", name=self.table, check=check):
            table = self.client.describe_table(TableName=self.table)["Table"]
        return table["TableId"], table.get("LatestStreamArn")


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


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """A page of a scan of the job table."""

    jobs: tuple[JobRow, ...]
    unreadable: tuple[tuple[str, int | None], ...]  # keys and versions
    after: str | None  # continues the scan; None on the last page


@dataclass(frozen=True)
class RowScan:
    """A scan that can be resumed. It skips items that are not jobs."""

    client: "DynamoDBClient"
    table: str

    def pages(self, *, after: str | None = None) -> Iterator[RowPage]:
        request: dict[str, Any] = {"TableName": self.table, "ConsistentRead": True}
        while True:
            if after is not None:
                request["ExclusiveStartKey"] = {"job_key": {"S": after}}
            check = "that it exists and that dynamodb:Scan is granted"
            with translated("the job table", name=self.table, check=check):
                found = self.client.scan(**request)
            after = found.get("LastEvaluatedKey", {}).get("job_key", {}).get("S")
            yield _to_row_page(found.get("Items", []), after)
            if after is None:
                return


def _to_row_page(items: list[dict[str, Any]], after: str | None) -> RowPage:
    jobs: list[JobRow] = []
    unreadable: list[tuple[str, int | None]] = []
    for row in items:
        key = str(row["job_key"]["S"])
        if not is_job_type(key.partition(":")[0]):
            continue
        try:
            jobs.append(deserialize_job(row))
        except UnreadableRowError:
            if is_unmarked(row):
                continue  # it proves nothing, and hides no proof
            unreadable.append((key, row_version(row)))
    return RowPage(jobs=tuple(jobs), unreadable=tuple(unreadable), after=after)
