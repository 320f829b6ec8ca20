"""Finds jobs through the indexes of the job table. Never scans it."""

import heapq
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from oncely.core.aws_errors import translated
from oncely.core.errors import UnavailableError, UnreadableRowError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.row_items import ATTENTION, ATTENTION_SHARDS, deserialize_job, serialize_field
from oncely.core.text import format_time, parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BY_SUBJECT: Final = "by_subject"
BY_CUSTOMER: Final = "by_customer"
BY_REFERENCE: Final = "by_reference"
ATTENTION_INDEX: Final = "attention"

# A page shows 25 jobs from at least 4 shards, so each shard is read in small steps.
_PAGE_SIZE: Final = 10
_MAX_PAGE_SIZE: Final = 500  # for exports and counts
_MAX_BATCH_GET: Final = 100  # the limit of BatchGetItem
_RETRY_DELAYS_SECONDS: Final = (0.05, 0.1, 0.2, 0.4)  # for unprocessed keys
_MIN_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MAX_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)
# Beyond every time, so that a `since` that was edited by hand stays in the list.
_MIN_TEXT: Final = " "
_MAX_TEXT: Final = "\U0010ffff"


@dataclass(frozen=True)
class JobListEntry:
    """A job in a list, before its row is read, with the time that orders the list."""

    job_key: JobKey
    at: datetime

    @property
    def job_type(self) -> str:
        """The prefix of the key."""
        return self.job_key.partition(":")[0]


@dataclass(frozen=True)
class UnreadableRow:
    """A row that this deployment cannot parse: edited by hand, or written by a newer version."""

    job_key: JobKey
    reason: str


@dataclass(frozen=True)
class JobIndex:
    """The search index of jobs. Its cost grows with the results, not with the table.

    Index entries hold little more than keys. Rows are then read by key.
    """

    client: "DynamoDBClient"
    table: str
    sleep: Callable[[float], None] = time.sleep

    def by_subject(self, subject: str, *, limit: int) -> list[JobKey]:
        """Find the jobs of a business id, the newest first."""
        return self._keys(BY_SUBJECT, "subject", subject, limit)

    def by_customer(self, customer_id: str, *, limit: int) -> list[JobKey]:
        """Find the jobs of a customer, the newest first."""
        return self._keys(BY_CUSTOMER, "customer_id", customer_id, limit)

    def by_reference(self, ref: str, *, limit: int) -> list[JobKey]:
        """Find the jobs with a provider reference."""
        return self._keys(BY_REFERENCE, "provider_ref", ref, limit)

    def by_status(
        self,
        statuses: Sequence[Status],
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        oldest_first: bool = False,
    ) -> Iterator[JobListEntry]:
        """Yield the jobs in these statuses lazily, by the time that each entered its status."""
        parts = (
            self._query_partition(name, since, until, oldest_first=oldest_first)
            for name in _partition_names(statuses)
        )
        return heapq.merge(*parts, key=lambda one: one.at, reverse=not oldest_first)

    def count(self, statuses: Sequence[Status], *, since: datetime | None, limit: int) -> int:
        """Count the jobs that entered these statuses since then, up to `limit`."""
        counted = 0
        for name in _partition_names(statuses):
            start: dict[str, Any] = {}
            while counted < limit:
                answer = self._query(
                    **_partition_query(name, since, None),
                    **start,
                    Select="COUNT",
                    Limit=limit - counted,
                )
                counted += answer["Count"]
                if "LastEvaluatedKey" not in answer:
                    break
                start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
        return counted

    def get_many(self, keys: Sequence[JobKey]) -> dict[JobKey, JobRow | UnreadableRow]:
        """Read these rows consistently. Missing rows are left out; unreadable ones say why."""
        found: dict[JobKey, JobRow | UnreadableRow] = {}
        distinct = list(dict.fromkeys(keys))
        for first in range(0, len(distinct), _MAX_BATCH_GET):
            batch = distinct[first : first + _MAX_BATCH_GET]
            found |= {row.job_key: row for row in self._get_batch(batch)}
        return found

    def _keys(self, index: str, name: str, value: str, limit: int) -> list[JobKey]:
        keys: list[JobKey] = []
        start: dict[str, Any] = {}
        while True:
            answer = self._query(
                **start,
                IndexName=index,
                KeyConditionExpression="#name = :value",
                ExpressionAttributeNames={"#name": name},
                ExpressionAttributeValues={":value": {"S": value}},
                ScanIndexForward=False,
                Limit=limit - len(keys),
            )
            keys += [JobKey(row["job_key"]["S"]) for row in answer["Items"]]
            if "LastEvaluatedKey" not in answer or len(keys) >= limit:
                return keys
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _query_partition(
        self, name: str, since: datetime | None, until: datetime | None, *, oldest_first: bool
    ) -> Iterator[JobListEntry]:
        start: dict[str, Any] = {}
        size = _PAGE_SIZE
        at = (since or _MIN_TIME) if oldest_first else (until or _MAX_TIME)
        while True:
            answer = self._query(
                **_partition_query(name, since, until),
                **start,
                ScanIndexForward=oldest_first,
                Limit=size,
            )
            for row in answer["Items"]:
                # A `since` that was edited by hand and is not a time keeps its place in the index.
                with suppress(ValueError):
                    at = parse_time(row["since"]["S"])
                yield JobListEntry(JobKey(row["job_key"]["S"]), at)
            size = min(size * 2, _MAX_PAGE_SIZE)
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _get_batch(self, keys: Sequence[JobKey]) -> Iterator[JobRow | UnreadableRow]:
        wanted: Any = [{"job_key": serialize_field("job_key", key)} for key in keys]
        for pause in (*_RETRY_DELAYS_SECONDS, None):
            request: Any = {self.table: {"Keys": wanted, "ConsistentRead": True}}
            answer = self._call(partial(self.client.batch_get_item, RequestItems=request))
            yield from map(_to_job, answer["Responses"].get(self.table, []))
            wanted = answer.get("UnprocessedKeys", {}).get(self.table, {}).get("Keys", [])
            if not wanted:
                return
            if pause is not None:
                self.sleep(pause)
        raise UnavailableError(f"DynamoDB is throttling ({len(wanted)} rows missing)")

    def _query(self, **query: Any) -> Mapping[str, Any]:  # noqa: ANN401  # the SDK's own form
        return self._call(lambda: self.client.query(TableName=self.table, **query))

    def _call(self, send: Callable[[], Any]) -> Mapping[str, Any]:
        check = "its name, its indexes and the function's permissions"
        with translated("the job table", name=self.table, check=check):
            answer: Mapping[str, Any] = send()
        return answer


def _partition_names(statuses: Sequence[Status]) -> list[str]:
    return [f"{status}#{shard}" for status in statuses for shard in range(ATTENTION_SHARDS)]


def _partition_query(name: str, since: datetime | None, until: datetime | None) -> dict[str, Any]:
    return {
        "IndexName": ATTENTION_INDEX,
        "KeyConditionExpression": "#part = :part AND #since BETWEEN :since AND :until",
        "ExpressionAttributeNames": {"#part": ATTENTION, "#since": "since"},
        "ExpressionAttributeValues": {
            ":part": {"S": name},
            ":since": {"S": _MIN_TEXT if since is None else format_time(since)},
            ":until": {"S": _MAX_TEXT if until is None else format_time(until)},
        },
    }


def _to_job(row: Mapping[str, Any]) -> JobRow | UnreadableRow:
    try:
        return deserialize_job(row)
    except UnreadableRowError as error:
        return UnreadableRow(JobKey(row["job_key"]["S"]), str(error))
