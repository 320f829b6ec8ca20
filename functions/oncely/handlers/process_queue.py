"""Lambda: processes the messages of the queue that its environment names."""

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App
from oncely.contracts.job import AnyJob
from oncely.contracts.job_names import refuse_other_jobs
from oncely.handlers.lambda_init import once_with_app
from oncely.handlers.telemetry import Handler, instrumented, telemetry
from oncely.run.process_batch import BatchProcessor, Delivery


@once_with_app
def get_worker(app: App) -> BatchProcessor:
    """Build once per execution environment."""
    return app.batch_processor


@instrumented
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process the batch, and report the messages that stay in the queue."""
    clock = get_worker().clock
    time_left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    deliveries = [_delivery(record) for record in event["Records"]]
    processed = get_worker().process(deliveries, deadline=clock.now() + time_left)
    telemetry().record_deliveries(processed)
    unacked = (one.delivery.message_id for one in processed if not one.acked)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unacked]}


def worker(*, jobs: Iterable[type[AnyJob]]) -> Handler:
    """Return the handler of your own function: `handler = oncely.worker(jobs=[VoucherIssue])`.

    The construct (`workers={…}`) gives the function its queue, layers, variables and permissions.
    """
    refuse_other_jobs(jobs, os.environ)
    return handler


def _delivery(record: Mapping[str, Any]) -> Delivery:
    attributes = record.get("attributes", {})
    return Delivery(
        message_id=record["messageId"],
        body=record["body"],
        receipt=record["receiptHandle"],
        receive_count=int(attributes.get("ApproximateReceiveCount", 1)),
    )
