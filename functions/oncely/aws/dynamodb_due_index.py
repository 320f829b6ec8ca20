"""Finds due rows through the sparse, sharded index of the job table."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from oncely.aws.errors import translated
from oncely.aws.expressions import Expression
from oncely.aws.job_rows import DUE, deserialize_row, due_partition_name, serialize
from oncely.domain.due import DUE_SHARDS, DueAction
from oncely.domain.keys import JobKey
from oncely.domain.text import format_time, parse_time
from oncely.ports import DueEntry

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

INDEX: Final = "due"

_PAGE_SIZE: Final = 250
_MIN_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DynamoDueIndex:
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
        e = Expression()
        between = " AND ".join(e.value(serialize(format_time(at))) for at in times)
        partition = f"{e.name(DUE)} = {e.value(serialize(due_partition_name(action, shard)))}"
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table,
            IndexName=INDEX,
            KeyConditionExpression=f"{partition} AND {e.name('due_at')} BETWEEN {between}",
            PaginationConfig={"PageSize": _PAGE_SIZE},
            **e.parameters(),
        )
        due_at = times[0]
        with translated(f"the index {INDEX!r}", name=self.table, check="that it exists"):
            for row in (deserialize_row(row) for page in pages for row in page["Items"]):
                # An edited due time keeps its place in the index and blocks no other row.
                with suppress(ValueError):
                    due_at = parse_time(row["due_at"])
                yield DueEntry(job_key=JobKey(str(row["job_key"])), due_at=due_at)
