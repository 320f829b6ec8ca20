"""Finds due rows through the sparse, sharded index of the job table."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from oncely.adapters.expressions import Expression
from oncely.adapters.job_rows import DUE, due_name, plain, serialized
from oncely.domain.due import DUE_SHARDS, Action
from oncely.domain.keys import JobKey
from oncely.domain.times import instant, time_text
from oncely.ports import Due

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

INDEX: Final = "due"

_PAGE_SIZE: Final = 250
_BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DynamoDueIndex:
    """Rows that have a due time; a row without one is not in the index."""

    client: "DynamoDBClient"
    table: str
    shards: int = DUE_SHARDS

    def due(
        self, action: Action, shard: int, *, since: datetime | None, until: datetime
    ) -> Iterator[Due]:
        """The rows of one partition that fell due in this time, longest due first."""
        e = Expression()
        times = (since or _BEGINNING, until)
        between = " AND ".join(e.value(serialized(time_text(at))) for at in times)
        partition = f"{e.name(DUE)} = {e.value(serialized(due_name(action, shard)))}"
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table,
            IndexName=INDEX,
            KeyConditionExpression=f"{partition} AND {e.name('due_at')} BETWEEN {between}",
            PaginationConfig={"PageSize": _PAGE_SIZE},
            **e.parameters(),
        )
        due_at = times[0]
        for page in pages:
            for row in map(plain, page["Items"]):
                # One that was edited into no time stands where the index has it: it stops nobody.
                with suppress(ValueError):
                    due_at = instant(row["due_at"])
                yield Due(job_key=JobKey(str(row["job_key"])), due_at=due_at)
