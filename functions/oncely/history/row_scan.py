"""Reads the whole job table, for a backfill of the history."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncely.core.aws_errors import translated
from oncely.core.errors import UnreadableRowError
from oncely.core.job_row import JobRow
from oncely.core.keys import is_job_type
from oncely.core.row_items import deserialize_job
from oncely.core.store import is_unmarked
from oncely.history.stream_records import row_version

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


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
