"""Lambda: brings the job of each dead letter to a known status, and continues from its row."""

from typing import Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent
from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App
from oncely.handlers.hand_back import hand_back
from oncely.handlers.lambda_init import once_with_app
from oncely.handlers.telemetry import instrumented, telemetry
from oncely.run.dead_letters import DeadLetterOutcome


@once_with_app
def get_app(app: App) -> App:
    """Build once per execution environment."""
    return app


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Handle a batch of dead letters, and report those that stay in the queue."""
    records = {record.message_id: record for record in SQSEvent(event).records}
    bodies = {message_id: record.body for message_id, record in records.items()}
    handled = get_app().dead_letter_handler.handle_batch(bodies)
    telemetry().dead_letters_handled(handled)
    kept = DeadLetterOutcome.LEFT_IN_QUEUE
    left = [letter.message_id for letter in handled if letter.outcome is kept]
    hand_back(get_app(), (records[message_id] for message_id in left))
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in left]}
