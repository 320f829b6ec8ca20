"""Finds due rows through the sparse, sharded index of the job table."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from oncely.adapters.job_rows import SHARD, SHARDS, plain
from oncely.domain.keys import JobKey
from oncely.domain.times import instant, time_text
from oncely.ports import Due

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

INDEX: Final = "due"

_PAGE: Final = 100
_BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DynamoDueIndex:
    """Rows that have a due time; a row without one is not in the index."""

    client: "DynamoDBClient"
    table: str

    def due(self, *, since: datetime | None, until: datetime) -> Iterator[Due]:
        """The rows that fell due in this time, the longest due first, read as they are taken."""
        shards = (self._shard(str(shard), since or _BEGINNING, until) for shard in range(SHARDS))
        return heapq.merge(*shards, key=lambda due: due.due_at)

    def _shard(self, shard: str, since: datetime, until: datetime) -> Iterator[Due]:
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table,
            IndexName=INDEX,
            KeyConditionExpression="#shard = :shard AND #due BETWEEN :since AND :until",
            ExpressionAttributeNames={"#shard": SHARD, "#due": "due_at"},
            ExpressionAttributeValues={
                ":shard": {"S": shard},
                ":since": {"S": time_text(since)},
                ":until": {"S": time_text(until)},
            },
            PaginationConfig={"PageSize": _PAGE},
        )
        for page in pages:
            yield from (_due(plain(row)) for row in page["Items"])


def _due(row: dict[str, Any]) -> Due:
    return Due(
        job_key=JobKey(row["job_key"]),
        job_type=row["job_type"],
        status=row["status"],
        due_at=instant(row["due_at"]),
        created_at=instant(row["created_at"]),
    )
