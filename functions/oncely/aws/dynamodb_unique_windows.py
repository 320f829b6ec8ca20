"""Unique windows: an item in the job table, written in one transaction with its job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from oncely.aws.dynamodb_job_store import DynamoJobStore, interpret_create
from oncely.aws.job_rows import deserialize_job, serialize_field, serialize_job
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.text import format_time
from oncely.ports import Created, CreateResult, UniqueWindow, WindowTaken

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Every job type has a dot, so no job key can begin like this.
_PREFIX: Final = "unique:"
_EXPIRY_MARGIN: Final = timedelta(days=1)
_CONDITION_FAILED: Final = "ConditionalCheckFailed"


@dataclass(frozen=True)
class DynamoUniqueWindows:
    """Windows in the job table."""

    client: "DynamoDBClient"
    job_store: DynamoJobStore

    def create(
        self, job: Job, window: UniqueWindow, *, replacing: JobKey | None = None
    ) -> CreateResult | WindowTaken:
        """Write a new row together with its window, if that is free, over, or `replacing`'s."""
        row: Any = {
            "TableName": self.job_store.table,
            "Item": serialize_job(job, due_shards=self.job_store.due_shards),
            "ConditionExpression": "attribute_not_exists(job_key)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        puts: list[Any] = [{"Put": self._window_put(job, window, replacing)}, {"Put": row}]

        def transact() -> CreateResult | WindowTaken:
            self.client.transact_write_items(TransactItems=puts)
            return Created(job)

        def cancelled(reasons: Sequence[Mapping[str, Any]]) -> CreateResult | WindowTaken | None:
            held, theirs = reasons
            if theirs.get("Code") == _CONDITION_FAILED:
                return interpret_create(job, deserialize_job(theirs["Item"]))
            return WindowTaken(JobKey(held["Item"]["holder"]["S"]))

        def seen(row: Job | None) -> CreateResult | WindowTaken | None:
            return interpret_create(job, row)

        return self.job_store.conditional_write(job.job_key, transact, seen, cancelled)

    def _window_put(self, job: Job, window: UniqueWindow, replacing: JobKey | None) -> Any:  # noqa: ANN401  # the SDK's own form
        return {
            "TableName": self.job_store.table,
            "Item": {
                "job_key": {"S": _PREFIX + window.name},
                "holder": {"S": job.job_key},
                "until": {"S": format_time(window.until)},
                "expires_at": serialize_field("expires_at", window.until + _EXPIRY_MARGIN),
            },
            "ConditionExpression": (
                "attribute_not_exists(job_key) OR #until <= :now OR #holder IN (:mine, :former)"
            ),
            "ExpressionAttributeNames": {"#until": "until", "#holder": "holder"},
            "ExpressionAttributeValues": {
                ":now": {"S": format_time(window.now)},
                ":mine": {"S": job.job_key},
                ":former": {"S": replacing or job.job_key},
            },
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
