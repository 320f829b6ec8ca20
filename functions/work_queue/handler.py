"""Lambda: works the messages of one queue; which queue, its environment says."""

import os
from datetime import timedelta
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.system import SystemClock, new_token, spread
from oncely.adapters.toolbox import Toolbox
from oncely.contracts import CONTRACTS
from oncely.registry import Registry
from oncely.services.run_job import Deadline, JobRunner
from oncely.services.work_batch import BatchWorker, Delivery
from oncely.settings import WorkerSettings
from oncely.telemetry import Handler, Telemetry


@cache
def worker() -> BatchWorker:
    """Wire once per execution environment."""
    registry = Registry(CONTRACTS)
    settings = WorkerSettings.from_env(os.environ, registry)
    tools = Toolbox(settings)
    runner = JobRunner(
        registry=registry.of_queue(settings.queue),
        tools=tools,
        store=tools.jobs(),
        alerts=tools.alerts,
        clock=SystemClock(),
        new_token=new_token,
        spread=spread,
    )
    return BatchWorker(
        runner=runner,
        inbox=tools.inbox,
        clock=runner.clock,
        spread=spread,
        side_by_side=settings.side_by_side,
        max_receives=settings.max_receives,
    )


@cache
def telemetry() -> Telemetry:
    """Make once per execution environment."""
    return Telemetry.create()


@cache
def observed() -> Handler:
    """Dress the handler once; decorators would read the environment at import."""
    return telemetry().around(work)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer which messages the queue must keep."""
    return observed()(event, context)


def work(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Work the batch, tell what became of each message, and name those to keep."""
    clock = worker().clock
    time_left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    worked = worker().work(
        [_delivery(record) for record in SQSEvent(event).records],
        deadline=Deadline(clock.now() + time_left, clock),
        tracing=telemetry().tracing(),
    )
    telemetry().record(worked)
    kept = (one.delivery.message_id for one in worked if not one.acked)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}


def _delivery(record: SQSRecord) -> Delivery:
    return Delivery(
        message_id=record.message_id,
        body=record.body,
        receipt=record.receipt_handle,
        receives=int(record.attributes.approximate_receive_count),
    )
