"""Lambda: brings each dead letter to a known state; the row carries the job on."""

import os
from typing import Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent
from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.aws.clients import AwsClients
from oncely.aws.dynamodb_job_store import DynamoJobStore
from oncely.aws.sns import SnsNotifier
from oncely.aws.sqs import SqsMessageSource
from oncely.aws.system import SystemClock
from oncely.aws.table_guard import build_table_guard
from oncely.jobs import CONTRACTS
from oncely.lambda_init import once
from oncely.registry import ContractRegistry
from oncely.run.dead_letters import DeadLetterHandler, DeadLetterOutcome
from oncely.settings import DeadLetterSettings
from oncely.telemetry import instrumented, telemetry


@once
def get_dead_letter_handler() -> DeadLetterHandler:
    """Wire once per execution environment."""
    settings = DeadLetterSettings.from_env(os.environ)
    clients = AwsClients()
    return DeadLetterHandler(
        registry=ContractRegistry(CONTRACTS),
        store=DynamoJobStore(
            client=clients.dynamodb,
            table=settings.jobs_table,
            tables={},
            due_shards=settings.due_shards,
        ),
        notifier=SnsNotifier(clients.sns, settings.alert_topic_arn),
        message_source=SqsMessageSource(
            client=clients.sqs, queue_url="dead-letters", rejects_url=settings.rejects_queue_url
        ),
        clock=SystemClock(),
        guard=build_table_guard(clients, settings.jobs_table),
        stack=settings.stack_name,
    )


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Receive a batch of dead letters."""
    bodies = {record.message_id: record.body for record in SQSEvent(event).records}
    handled = get_dead_letter_handler().handle_batch(bodies)
    telemetry().dead_letters_handled(handled)
    kept = (
        letter.message_id for letter in handled if letter.outcome is DeadLetterOutcome.LEFT_IN_QUEUE
    )
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}
