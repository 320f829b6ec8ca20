"""Unique windows on DynamoDB: a small row, written in one transaction with its job."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from oncely.adapters.aws import code_of
from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.adapters.job_rows import attribute, from_attributes, to_attributes
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.times import time_text
from oncely.ports import Created, CreateResult, Exists, Window, WindowHeld

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
        try:
            self.client.transact_write_items(
                TransactItems=[
                    {"Put": self._window(job, window, instead_of)},
                    {
                        "Put": {
                            "TableName": self.jobs.table,
                            "Item": to_attributes(job),
                            "ConditionExpression": "attribute_not_exists(job_key)",
                            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                        }
                    },
                ]
            )
        except ClientError as error:
            if code_of(error) != "TransactionCanceledException":
                raise
            return _cancelled(job, error)
        return Created(job)

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


def _cancelled(job: Job, error: ClientError) -> CreateResult | WindowHeld:
    reasons: list[Mapping[str, Any]] = error.response.get("CancellationReasons", [])  # type: ignore[assignment]  # the SDK types it as an error's field
    window, row = reasons
    if row.get("Code") == _REFUSED:
        found = from_attributes(row["Item"])
        return Created(job) if found == job else Exists(found)
    if window.get("Code") == _REFUSED:
        return WindowHeld(JobKey(window["Item"]["holder"]["S"]))
    raise error
