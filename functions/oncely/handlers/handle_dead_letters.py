"""Lambda: brings the job of each dead letter to a known status, and continues from its row."""

import os
from typing import Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent
from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.aws.ports import app_from_env
from oncely.jobs import CONTRACTS
from oncely.lambda_init import once
from oncely.run.dead_letters import DeadLetterHandler, DeadLetterOutcome
from oncely.telemetry import instrumented, telemetry


@once
def get_dead_letter_handler() -> DeadLetterHandler:
    """Build once per execution environment."""
    return app_from_env(os.environ, CONTRACTS).dead_letter_handler


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Handle a batch of dead letters, and report those that stay in the queue."""
    bodies = {record.message_id: record.body for record in SQSEvent(event).records}
    handled = get_dead_letter_handler().handle_batch(bodies)
    telemetry().dead_letters_handled(handled)
    kept = DeadLetterOutcome.LEFT_IN_QUEUE
    left = (letter.message_id for letter in handled if letter.outcome is kept)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in left]}
