"""Lambda: writes the changes in the table's stream, and gaps in it, to the history."""

import os
from typing import Any, Final

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.aws.ports import AwsPorts
from oncely.aws.stream_gaps import gap_from_failure
from oncely.aws.stream_records import batch_name, row_changes
from oncely.aws.system import SystemClock
from oncely.aws.table_generation import TableGenerationReader
from oncely.lambda_init import once
from oncely.publish.archive_history import HistoryWriter
from oncely.settings import Settings
from oncely.telemetry import instrumented, telemetry

_QUEUE: Final = "aws:sqs"


@once
def get_history_writer() -> HistoryWriter:
    """Build once per execution environment."""
    return HistoryWriter(AwsPorts(Settings.from_env(os.environ)).history_store)


@once
def get_table_generation() -> TableGenerationReader:
    """Build once per execution environment."""
    settings = Settings.from_env(os.environ)
    settings.require("jobs_table")
    return TableGenerationReader(AwsPorts(settings).clients.dynamodb, str(settings.jobs_table))


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Write a batch of the stream, or the gaps that the failure queue reports.

    After an error, Lambda retries the whole batch, which overwrites the same objects.
    """
    records = event.get("Records", [])
    if records and records[0]["eventSource"] == _QUEUE:
        _record_gaps(records)
    elif records:
        _write(records)
    return {"batchItemFailures": []}


def _write(records: list[dict[str, Any]]) -> None:
    table = get_table_generation()(records[0]["eventSourceARN"])
    changes = row_changes(records)
    name = batch_name(records, generation=table)
    objects = get_history_writer().write(changes, generation=table, batch=name)
    telemetry().history_written(changes=len(changes), objects=objects)


def _record_gaps(records: list[dict[str, Any]]) -> None:
    now = SystemClock().now()
    for record in records:
        gap = gap_from_failure(record["body"], recorded_at=now)
        get_history_writer().store.record_gap(gap)
        telemetry().history_gap(gap)
