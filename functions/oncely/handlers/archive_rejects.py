"""Lambda: archives rejected messages with their reasons, so that a producer can correct them."""

import os
from typing import Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent
from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.aws.ports import AwsPorts
from oncely.aws.s3_archive import S3Archive
from oncely.aws.system import SystemClock
from oncely.domain.effect_outcomes import Json
from oncely.lambda_init import once
from oncely.settings import Settings
from oncely.telemetry import instrumented


@once
def get_archive() -> S3Archive:
    """Build once per execution environment."""
    return AwsPorts(Settings.from_env(os.environ)).reject_archive


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Archive each message. If one cannot be archived, the whole batch stays in the queue."""
    now = SystemClock().now()
    for record in SQSEvent(event).records:
        attributes = {name: one.string_value for name, one in record.message_attributes.items()}
        reject: dict[str, Json] = {"body": record.body, **attributes}
        get_archive().save_reject(record.message_id, reject, at=now)
    return {"batchItemFailures": []}
