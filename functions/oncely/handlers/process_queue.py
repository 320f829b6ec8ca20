"""Lambda: works the messages of one queue; which queue, its environment says."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.aws.clients import AwsClients
from oncely.aws.dependencies import AwsDependencies
from oncely.aws.sns import SnsNotifier
from oncely.aws.sqs import SqsMessageSource
from oncely.aws.system import SystemClock, new_owner_token, random_jitter
from oncely.aws.table_guard import build_table_guard
from oncely.domain.errors import NotConfiguredError
from oncely.jobs import CONTRACTS
from oncely.lambda_init import once
from oncely.registry import ContractRegistry
from oncely.run.process_batch import BatchProcessor, Delivery
from oncely.run.run_job import JobRunner
from oncely.settings import WorkerSettings
from oncely.telemetry import instrumented, telemetry


@once
def get_worker() -> BatchProcessor:
    """Wire once per execution environment."""
    settings = WorkerSettings.from_env(os.environ, CONTRACTS)
    registry = ContractRegistry(CONTRACTS).for_queue(settings.queue_name)
    if not tuple(registry):
        # Else every message would be rejected as unknown, good ones too.
        raise NotConfiguredError(
            f"no contract names the queue {settings.queue_name!r}: mend QUEUE_NAME and deploy again"
        )
    clients = AwsClients()
    queues = {**settings.queues, settings.queue_name: settings.queue_url}
    tools = AwsDependencies(settings, clients, queues=queues)
    tools.preload()
    runner = JobRunner(
        registry=registry,
        dependencies=tools,
        store=tools.job_store(),
        notifier=SnsNotifier(clients.sns, settings.alert_topic_arn),
        clock=SystemClock(),
        new_token=new_owner_token,
        jitter=random_jitter,
        stack=settings.stack_name,
        guard=build_table_guard(clients, settings.jobs_table),
        row_retention=timedelta(days=settings.retention_days),
    )
    return BatchProcessor(
        runner=runner,
        message_source=SqsMessageSource(
            client=clients.sqs,
            queue_url=settings.queue_url,
            rejects_url=settings.rejects_queue_url,
        ),
        clock=runner.clock,
        jitter=random_jitter,
        concurrency=settings.batch_concurrency,
        max_receive_count=settings.max_receive_count,
    )


@instrumented
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Work the batch, tell what became of each message, and name those to keep."""
    clock = get_worker().clock
    time_left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    processed = get_worker().process(
        [_delivery(record) for record in event["Records"]],
        deadline=clock.now() + time_left,
    )
    telemetry().record_deliveries(processed)
    kept = (one.delivery.message_id for one in processed if not one.acked)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}


def _delivery(record: Mapping[str, Any]) -> Delivery:
    return Delivery(
        message_id=record["messageId"],
        body=record["body"],
        receipt=record["receiptHandle"],
        receive_count=int(record.get("attributes", {}).get("ApproximateReceiveCount", 1)),
    )
