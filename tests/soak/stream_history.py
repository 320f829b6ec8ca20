"""The history of a soak: the job table's stream, as the archive would keep it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from oncely.core.job_row import JobRow
from oncely.history.lines import HistoryLine, backfill_line
from oncely.history.sources import TableGenerationReader, lines_of_records, row_version
from oncely_local.account import LocalAccount

# A date for boto3, and a number for a function on Lambda.
_TIME: Final = "ApproximateCreationDateTime"


@dataclass(frozen=True, kw_only=True)
class StreamLines:
    """The history lines of all jobs, the writes that they were made from, and those missing."""

    lines: Sequence[HistoryLine] = ()
    writes: int = 0
    lost: int = 0


@dataclass
class StreamReader:
    """Reads the stream in parts.

    The engine keeps a stream only until it ends. What is written between the last part and its end
    is lost, like in a gap of the archive, which a backfill closes with the newest row of each job.
    """

    account: LocalAccount
    table: str
    _lines: list[HistoryLine] = field(default_factory=list)
    _writes: set[tuple[str, int | None]] = field(default_factory=set)  # job key and version
    _last_read: dict[str, str] = field(default_factory=dict)  # sequence number by shard

    def __post_init__(self) -> None:
        self._streams = self.account.client("dynamodbstreams")
        self._generation = TableGenerationReader(self.account.client("dynamodb"), self.table)

    def read(self) -> None:
        """Read what was written since the last part."""
        (stream,) = self._streams.list_streams(TableName=self.table)["Streams"]
        arn = stream["StreamArn"]
        for shard in self._streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
            for records in self._pages(arn, shard["ShardId"]):
                self._lines += lines_of_records(records, generation=self._generation(arn))
                self._writes.update(_written(records))

    def finish(self, rows: Sequence[JobRow]) -> StreamLines:
        """Read the last part, and close the gaps."""
        self.read()
        closing = (backfill_line(row, generation=self._generation()) for row in rows)
        return StreamLines(
            lines=(*self._lines, *closing),
            writes=len(self._writes),
            lost=sum(row.version for row in rows) - len(self._writes),
        )

    def _pages(self, arn: str, shard: str) -> Iterator[list[dict[str, Any]]]:
        iterator = self._iterator(arn, shard)
        while iterator and (page := self._streams.get_records(ShardIterator=iterator))["Records"]:
            yield [_as_lambda_passes(record) for record in page["Records"]]
            self._last_read[shard] = page["Records"][-1]["dynamodb"]["SequenceNumber"]
            iterator = page.get("NextShardIterator")

    def _iterator(self, arn: str, shard: str) -> str:
        place = {"ShardIteratorType": "TRIM_HORIZON"}
        if last := self._last_read.get(shard):
            place = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": last}
        try:
            found = self._streams.get_shard_iterator(StreamArn=arn, ShardId=shard, **place)
        except self._streams.exceptions.TrimmedDataAccessException:
            del self._last_read[shard]  # the engine has started again, with an empty stream
            return self._iterator(arn, shard)
        return str(found["ShardIterator"])


def _as_lambda_passes(record: Mapping[str, Any]) -> dict[str, Any]:
    content = record["dynamodb"]
    return {**record, "dynamodb": {**content, _TIME: content[_TIME].timestamp()}}


def _written(records: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int | None]]:
    for record in records:
        row = record["dynamodb"].get("NewImage", {})
        if "status" in row:
            yield row["job_key"]["S"], row_version(row)
