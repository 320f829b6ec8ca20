"""Finds jobs for people through the indexes of the job table; never scans it."""

import heapq
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from oncely.adapters.aws import NO_ANSWER, code_of, is_temporary
from oncely.adapters.job_rows import (
    ATTENTION,
    ATTENTION_SHARDS,
    attribute,
    from_attributes,
    plain,
)
from oncely.domain.errors import NotConfiguredError, OncelyError, UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.times import instant, time_text
from oncely.ports import Listed

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BY_SUBJECT: Final = "by_subject"
BY_CUSTOMER: Final = "by_customer"
BY_REFERENCE: Final = "by_reference"
ATTENTION_INDEX: Final = "attention"

# A page of a list shows 25 jobs out of four shards or more; each is read a little at a time.
_PAGE: Final = 10
_LONGEST_PAGE: Final = 500  # for who reads on and on: an export, a count
_ROWS_AT_ONCE: Final = 100  # BatchGetItem takes no more
_PAUSES: Final = (0.05, 0.1, 0.2, 0.4)  # seconds, for rows that DynamoDB was too busy to give
_BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)
_END: Final = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DynamoJobFinder:
    """Index entries hold keys and little more; whole rows are read by their keys."""

    client: "DynamoDBClient"
    table: str
    sleep: Callable[[float], None] = time.sleep

    def by_subject(self, subject: str, *, most: int) -> list[JobKey]:
        """The jobs about a business id, the newest first."""
        return self._keys(BY_SUBJECT, "subject", subject, most)

    def by_customer(self, customer_id: str, *, most: int) -> list[JobKey]:
        """The jobs of a customer, the newest first."""
        return self._keys(BY_CUSTOMER, "customer_id", customer_id, most)

    def by_reference(self, ref: str, *, most: int) -> list[JobKey]:
        """The jobs that carry a provider's reference."""
        return self._keys(BY_REFERENCE, "provider_ref", ref, most)

    def attention(
        self,
        statuses: Sequence[Status],
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        oldest_first: bool = False,
    ) -> Iterator[Listed]:
        """The jobs of these that operators act on, by when each got there, read as taken."""
        parts = (
            self._part(name, since, until, oldest_first=oldest_first) for name in _parts(statuses)
        )
        return heapq.merge(*parts, key=lambda one: one.at, reverse=not oldest_first)

    def count(self, statuses: Sequence[Status], *, since: datetime | None, most: int) -> int:
        """How many jobs of these statuses got there since then; counting ends at `most`."""
        counted = 0
        for name in _parts(statuses):
            start: dict[str, Any] = {}
            while counted < most:
                answer = self._query(
                    **_of_part(name, since, None),
                    **start,
                    Select="COUNT",
                    Limit=most - counted,
                )
                counted += answer["Count"]
                if "LastEvaluatedKey" not in answer:
                    break
                start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
        return counted

    def rows(self, keys: Sequence[JobKey]) -> dict[JobKey, Job]:
        """Read these rows, consistently; one that is gone is left out."""
        found: dict[JobKey, Job] = {}
        distinct = list(dict.fromkeys(keys))
        for first in range(0, len(distinct), _ROWS_AT_ONCE):
            batch = distinct[first : first + _ROWS_AT_ONCE]
            found |= {job.job_key: job for job in self._batch(batch)}
        return found

    def _keys(self, index: str, name: str, value: str, most: int) -> list[JobKey]:
        answer = self._query(
            IndexName=index,
            KeyConditionExpression="#name = :value",
            ExpressionAttributeNames={"#name": name},
            ExpressionAttributeValues={":value": {"S": value}},
            ScanIndexForward=False,
            Limit=most,
        )
        return [JobKey(row["job_key"]["S"]) for row in answer["Items"]]

    def _part(
        self, name: str, since: datetime | None, until: datetime | None, *, oldest_first: bool
    ) -> Iterator[Listed]:
        start: dict[str, Any] = {}
        size = _PAGE
        while True:
            answer = self._query(
                **_of_part(name, since, until),
                **start,
                ScanIndexForward=oldest_first,
                Limit=size,
            )
            yield from (_listed(plain(row)) for row in answer["Items"])
            size = min(size * 2, _LONGEST_PAGE)
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _batch(self, keys: Sequence[JobKey]) -> Iterator[Job]:
        """Rows that DynamoDB gives later are asked for again, a few times."""
        wanted: Any = [{"job_key": attribute("job_key", key)} for key in keys]
        for pause in (*_PAUSES, None):
            request: Any = {self.table: {"Keys": wanted, "ConsistentRead": True}}
            answer = self._asked(partial(self.client.batch_get_item, RequestItems=request))
            yield from map(from_attributes, answer["Responses"].get(self.table, []))
            wanted = answer.get("UnprocessedKeys", {}).get(self.table, {}).get("Keys", [])
            if not wanted:
                return
            if pause is not None:
                self.sleep(pause)
        raise UnavailableError(f"DynamoDB was too busy to give {len(wanted)} rows; try again")

    def _query(self, **query: Any) -> Mapping[str, Any]:  # noqa: ANN401  # the SDK's own form
        return self._asked(lambda: self.client.query(TableName=self.table, **query))

    def _asked(self, ask: Callable[[], Any]) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = ask()
        except NO_ANSWER as error:
            raise UnavailableError(f"DynamoDB gave no answer; try again ({error})") from error
        except ClientError as error:
            raise self._refused(error) from error
        return answer

    def _refused(self, error: ClientError) -> OncelyError:
        code = code_of(error)
        if is_temporary(error):
            return UnavailableError(f"DynamoDB is too busy ({code}); try again")
        return NotConfiguredError(
            f"table {self.table!r} cannot be searched ({code}): check its name, its indexes and "
            "the grants"
        )


def _parts(statuses: Sequence[Status]) -> list[str]:
    return [f"{status}#{shard}" for status in statuses for shard in range(ATTENTION_SHARDS)]


def _of_part(name: str, since: datetime | None, until: datetime | None) -> dict[str, Any]:
    return {
        "IndexName": ATTENTION_INDEX,
        "KeyConditionExpression": "#part = :part AND #since BETWEEN :since AND :until",
        "ExpressionAttributeNames": {"#part": ATTENTION, "#since": "since"},
        "ExpressionAttributeValues": {
            ":part": {"S": name},
            ":since": {"S": time_text(since or _BEGINNING)},
            ":until": {"S": time_text(until or _END)},
        },
    }


def _listed(row: dict[str, Any]) -> Listed:
    return Listed(JobKey(row["job_key"]), instant(row["since"]))
