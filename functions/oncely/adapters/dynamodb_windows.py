"""Unique windows on DynamoDB: a small row, written in one transaction with its job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from oncely.adapters.dynamodb_jobs import DynamoJobStore, create_seen
from oncely.adapters.job_rows import attribute, from_attributes, to_attributes
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.times import time_text
from oncely.ports import Created, CreateResult, Window, WindowHeld

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# No job type is spelled without a dot, so no job's key can begin like this.
_PREFIX: Final = "unique:"
_KEPT: Final = timedelta(days=1)
_REFUSED: Final = "ConditionalCheckFailed"


@dataclass(frozen=True)
class DynamoWindows:
    """Windows in the job table."""

    client: "DynamoDBClient"
    jobs: DynamoJobStore

    def create(
        self, job: Job, window: Window, *, instead_of: JobKey | None = None
    ) -> CreateResult | WindowHeld:
        """Write a new row together with its window, if that is free, over, or `instead_of`'s."""
        row: Any = {
            "TableName": self.jobs.table,
            "Item": to_attributes(job, due_shards=self.jobs.due_shards),
            "ConditionExpression": "attribute_not_exists(job_key)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        puts: list[Any] = [{"Put": self._window(job, window, instead_of)}, {"Put": row}]

        def transact() -> CreateResult | WindowHeld:
            self.client.transact_write_items(TransactItems=puts)
            return Created(job)

        def cancelled(reasons: Sequence[Mapping[str, Any]]) -> CreateResult | WindowHeld | None:
            held, theirs = reasons
            if theirs.get("Code") == _REFUSED:
                return create_seen(job, from_attributes(theirs["Item"]))
            return WindowHeld(JobKey(held["Item"]["holder"]["S"]))

        def seen(row: Job | None) -> CreateResult | WindowHeld | None:
            return create_seen(job, row)

        return self.jobs.write(job.job_key, transact, seen, cancelled)

    def _window(self, job: Job, window: Window, instead_of: JobKey | None) -> Any:  # noqa: ANN401  # the SDK's own form
        return {
            "TableName": self.jobs.table,
            "Item": {
                "job_key": {"S": _PREFIX + window.name},
                "holder": {"S": job.job_key},
                "until": {"S": time_text(window.until)},
                "expires_at": attribute("expires_at", window.until + _KEPT),
            },
            "ConditionExpression": (
                "attribute_not_exists(job_key) OR #until <= :now OR #holder IN (:mine, :former)"
            ),
            "ExpressionAttributeNames": {"#until": "until", "#holder": "holder"},
            "ExpressionAttributeValues": {
                ":now": {"S": time_text(window.now)},
                ":mine": {"S": job.job_key},
                ":former": {"S": instead_of or job.job_key},
            },
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
