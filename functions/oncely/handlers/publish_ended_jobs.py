"""Lambda: sends what each ended job owes that the table's stream shows: follow-ups and events."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.aws.ports import app_from_env
from oncely.domain.errors import UnreadableRowError
from oncely.domain.keys import JobKey
from oncely.jobs import CONTRACTS
from oncely.lambda_init import once
from oncely.publish.publisher import EndedJobPublisher
from oncely.telemetry import instrumented, telemetry


@once
def get_publisher() -> EndedJobPublisher:
    """Built once per execution environment."""
    return app_from_env(os.environ, CONTRACTS).publisher


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Publish each; the stream is read again from the first that failed, so it skips nothing."""
    changes = [record["dynamodb"] for record in event.get("Records", [])]
    failed = get_publisher().publish_batch(_job_key(change) for change in changes)
    for key, error in failed.items():
        telemetry().publish_failed(key, error)
    # What a newer version wrote is not mended by a repetition: its row stays due for a sweep.
    wanted = {key for key, error in failed.items() if not isinstance(error, UnreadableRowError)}
    again = [change["SequenceNumber"] for change in changes if _job_key(change) in wanted]
    return {"batchItemFailures": [{"itemIdentifier": number} for number in again]}


def _job_key(change: dict[str, Any]) -> JobKey:
    return JobKey(change["Keys"]["job_key"]["S"])
