"""Lambda: works the messages of one queue; which queue, its environment says."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.clients import Clients
from oncely.adapters.sns import SnsAlerts
from oncely.adapters.sqs import SqsInbox
from oncely.adapters.system import SystemClock, new_token, spread
from oncely.adapters.table_guard import table_guard
from oncely.adapters.toolbox import Toolbox
from oncely.contracts import CONTRACTS
from oncely.domain.errors import NotConfiguredError
from oncely.lambda_init import once
from oncely.registry import Registry
from oncely.services.deadline import Deadline
from oncely.services.run_job import JobRunner
from oncely.services.work_batch import BatchWorker, Delivery
from oncely.settings import WorkerSettings
from oncely.telemetry import observed, telemetry


@once
def worker() -> BatchWorker:
    """Wire once per execution environment."""
    settings = WorkerSettings.from_env(os.environ, CONTRACTS)
    registry = Registry(CONTRACTS).of_queue(settings.queue_name)
    if not tuple(registry):
        # Else every message would be rejected as unknown, good ones too.
        raise NotConfiguredError(
            f"no contract names the queue {settings.queue_name!r}: mend QUEUE_NAME and deploy again"
        )
    clients = Clients()
    queues = {**settings.queues, settings.queue_name: settings.queue_url}
    tools = Toolbox(settings, clients, queues=queues)
    tools.prepare()
    runner = JobRunner(
        registry=registry,
        tools=tools,
        store=tools.jobs(),
        alerts=SnsAlerts(clients.sns, settings.alert_topic_arn),
        clock=SystemClock(),
        new_token=new_token,
        spread=spread,
        stack=settings.stack_name,
        guard=table_guard(clients, settings.jobs_table),
        row_retention=timedelta(days=settings.retention_days),
    )
    return BatchWorker(
        runner=runner,
        inbox=SqsInbox(
            client=clients.sqs,
            queue_url=settings.queue_url,
            rejects_url=settings.rejects_queue_url,
        ),
        clock=runner.clock,
        spread=spread,
        side_by_side=settings.side_by_side,
        max_receives=settings.max_receives,
    )


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Work the batch, tell what became of each message, and name those to keep."""
    clock = worker().clock
    time_left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    worked = worker().work(
        [_delivery(record) for record in event["Records"]],
        deadline=Deadline(clock.now() + time_left, clock),
    )
    telemetry().record(worked)
    kept = (one.delivery.message_id for one in worked if not one.acked)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}


def _delivery(record: Mapping[str, Any]) -> Delivery:
    return Delivery(
        message_id=record["messageId"],
        body=record["body"],
        receipt=record["receiptHandle"],
        receives=int(record.get("attributes", {}).get("ApproximateReceiveCount", 1)),
    )
