"""Finds due rows through the sparse, sharded index of the job table."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from oncely.core.aws_errors import translated
from oncely.core.due import DUE_SHARDS, DueAction
from oncely.core.keys import JobKey
from oncely.core.row_items import DUE, deserialize_row, due_partition_name, serialize
from oncely.core.store import Expression
from oncely.core.text import format_time, parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

INDEX: Final = "due"

# A list or a count needs the first few entries of each shard, a sweep hundreds.
_PAGE_SIZE: Final = 10
_MAX_PAGE_SIZE: Final = 250
_MIN_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class DueEntry:
    """A due row as the index shows it. The prefix of its key is the job type."""

    job_key: JobKey
    due_at: datetime


@dataclass(frozen=True)
class DueIndex:
    """The rows that have a due time."""

    client: "DynamoDBClient"
    table: str
    shards: int = DUE_SHARDS

    def due(
        self, action: DueAction, shard: int, *, since: datetime | None, until: datetime
    ) -> Iterator[DueEntry]:
        times = (since or _MIN_TIME, until)
        if times[0] > until:
            return  # DynamoDB refuses such a query
        due_at = times[0]
        for row in self._query(due_partition_name(action, shard), times):
            # An edited due time keeps its place in the index and blocks no other row.
            with suppress(ValueError):
                due_at = parse_time(row["due_at"])
            yield DueEntry(job_key=JobKey(str(row["job_key"])), due_at=due_at)

    def _query(self, partition: str, times: tuple[datetime, datetime]) -> Iterator[dict[str, Any]]:
        """Read a partition lazily, in growing steps."""
        e = Expression()
        between = " AND ".join(e.value(serialize(format_time(at))) for at in times)
        condition = f"{e.name(DUE)} = {e.value(serialize(partition))}"
        query: dict[str, Any] = {
            "TableName": self.table,
            "IndexName": INDEX,
            "KeyConditionExpression": f"{condition} AND {e.name('due_at')} BETWEEN {between}",
            **e.parameters(),
        }
        size = _PAGE_SIZE
        while True:
            with translated(f"the index {INDEX!r}", name=self.table, check="that it exists"):
                page = self.client.query(**query, Limit=size)
            yield from map(deserialize_row, page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]
            size = min(size * 2, _MAX_PAGE_SIZE)
