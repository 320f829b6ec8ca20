"""Lambda: brings each dead letter to a known state; the row carries the job on."""

import os
from typing import Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent
from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.clients import Clients
from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.adapters.sns import SnsAlerts
from oncely.adapters.sqs import SqsInbox
from oncely.adapters.system import SystemClock
from oncely.adapters.table_guard import table_guard
from oncely.contracts import CONTRACTS
from oncely.lambda_init import once
from oncely.registry import Registry
from oncely.services.dead_letters import DeadLetters, Fate
from oncely.settings import DeadLetterSettings
from oncely.telemetry import observed, telemetry


@once
def letters() -> DeadLetters:
    """Wire once per execution environment."""
    settings = DeadLetterSettings.from_env(os.environ)
    clients = Clients()
    return DeadLetters(
        registry=Registry(CONTRACTS),
        store=DynamoJobStore(
            client=clients.dynamodb,
            table=settings.jobs_table,
            tables={},
            due_shards=settings.due_shards,
        ),
        alerts=SnsAlerts(clients.sns, settings.alert_topic_arn),
        inbox=SqsInbox(
            client=clients.sqs, queue_url="dead-letters", rejects_url=settings.rejects_queue_url
        ),
        clock=SystemClock(),
        guard=table_guard(clients, settings.jobs_table),
        stack=settings.stack_name,
    )


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Receive a batch of dead letters."""
    bodies = {record.message_id: record.body for record in SQSEvent(event).records}
    received = letters().receive_all(bodies)
    telemetry().dead_letters(received)
    kept = (letter.message_id for letter in received if letter.fate is Fate.LEFT)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}
