"""Finds due rows through the sparse, sharded index of the job table."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from oncely.adapters.expressions import Expression
from oncely.adapters.job_rows import SHARD, SHARDS, attribute, plain, serialized
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.times import instant, time_text
from oncely.ports import Due

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

INDEX: Final = "due"

_PAGE: Final = 100
_ANY: Final = frozenset(Status)
_BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DynamoDueIndex:
    """Rows that have a due time; a row without one is not in the index."""

    client: "DynamoDBClient"
    table: str

    def due(
        self,
        *,
        since: datetime | None,
        until: datetime,
        statuses: frozenset[Status] = _ANY,
    ) -> Iterator[Due]:
        """The rows of these that fell due in this time, the longest due first, read as taken."""
        time = (since or _BEGINNING, until)
        shards = (self._shard(str(shard), *time, statuses) for shard in range(SHARDS))
        return heapq.merge(*shards, key=lambda due: due.due_at)

    def _shard(
        self, shard: str, since: datetime, until: datetime, statuses: frozenset[Status]
    ) -> Iterator[Due]:
        e = Expression()
        between = " AND ".join(e.value(serialized(time_text(at))) for at in (since, until))
        of_shard = f"{e.name(SHARD)} = {e.value(serialized(shard))}"
        few: dict[str, Any] = {"PaginationConfig": {"PageSize": _PAGE}}
        if statuses != _ANY:
            # Those that are left out are read as well, so a page is as large as it may be.
            wanted = ", ".join(e.value(attribute("status", one)) for one in sorted(statuses))
            few = {"FilterExpression": f"{e.name('status')} IN ({wanted})"}
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table,
            IndexName=INDEX,
            KeyConditionExpression=f"{of_shard} AND {e.name('due_at')} BETWEEN {between}",
            **few,
            **e.parameters(),
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
