"""Lambda: archives rejected messages with their reasons, so that a producer can correct them."""

import os
from typing import Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent
from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App, app_from_env
from oncely.core.effect_outcomes import Json
from oncely.handlers.hand_back import hand_back
from oncely.handlers.lambda_init import once
from oncely.handlers.telemetry import instrumented
from oncely.ports import SystemClock


@once
def get_app() -> App:
    """Build once per execution environment."""
    return app_from_env(os.environ)


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Archive each message. If one cannot be archived, the whole batch stays in the queue."""
    now, records = SystemClock().now(), list(SQSEvent(event).records)
    try:
        for record in records:
            attributes = {name: one.string_value for name, one in record.message_attributes.items()}
            reject: dict[str, Json] = {"body": record.body, **attributes}
            get_app().ports.stored_rejects.save_reject(record.message_id, reject, at=now)
    except Exception:
        hand_back(get_app(), records)
        raise
    return {"batchItemFailures": []}
