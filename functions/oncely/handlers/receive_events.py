"""Lambda: receives provider events from the intake queue."""

from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent
from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App
from oncely.handlers.hand_back import hand_back
from oncely.handlers.lambda_init import once_with_app
from oncely.handlers.telemetry import instrumented, telemetry


@once_with_app
def get_app(app: App) -> App:
    """Build once per execution environment."""
    _ = app.event_intake
    return app


@instrumented
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Receive a batch, and report the events that stay in the queue."""
    intake, records = get_app().event_intake, list(SQSEvent(event).records)
    left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    deadline = get_app().ports.clock.now() + left
    received = [intake.receive(record.body, deadline=deadline) for record in records]
    telemetry().events_received(received)
    kept = [record for record, one in zip(records, received, strict=True) if one.stays_in_queue]
    hand_back(get_app(), kept)
    return {"batchItemFailures": [{"itemIdentifier": record.message_id} for record in kept]}
