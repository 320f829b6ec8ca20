"""Lambda: sends the follow-ups and the event of each ended job in the table's stream."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App
from oncely.core.errors import UnreadableRowError
from oncely.core.keys import JobKey
from oncely.handlers.lambda_init import once_with_app
from oncely.handlers.telemetry import instrumented, telemetry
from oncely.publish.publisher import EndedJobPublisher


@once_with_app
def get_publisher(app: App) -> EndedJobPublisher:
    """Build once per execution environment."""
    return app.publisher


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Publish each job. Lambda rereads the stream from the first failure, so none is skipped."""
    changes = [record["dynamodb"] for record in event.get("Records", [])]
    failed = get_publisher().publish_batch(_job_key(change) for change in changes)
    for key, error in failed.items():
        telemetry().publish_failed(key, error)
    # Retrying cannot read the row of a newer version: it stays due for a sweep.
    retryable = {key for key, error in failed.items() if not isinstance(error, UnreadableRowError)}
    retries = [change["SequenceNumber"] for change in changes if _job_key(change) in retryable]
    return {"batchItemFailures": [{"itemIdentifier": number} for number in retries]}


def _job_key(change: dict[str, Any]) -> JobKey:
    return JobKey(change["Keys"]["job_key"]["S"])
