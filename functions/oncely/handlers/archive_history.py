"""Lambda: writes the changes in the table's stream, and gaps in it, to the history."""

import os
from typing import Any, Final

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App, app_from_env
from oncely.handlers.lambda_init import once
from oncely.handlers.telemetry import instrumented, telemetry
from oncely.history.gaps import gap_from_failure
from oncely.history.sources import batch_name, lines_of_records

_QUEUE: Final = "aws:sqs"


@once
def get_app() -> App:
    """Build once per execution environment."""
    app = app_from_env(os.environ)
    _ = app.history_writer, app.ports.table_generation
    return app


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
    table = get_app().ports.table_generation(records[0]["eventSourceARN"])
    lines = lines_of_records(records, generation=table)
    name = batch_name(records, generation=table)
    objects = get_app().history_writer.write(lines, batch=name)
    telemetry().history_written(lines=len(lines), objects=objects)


def _record_gaps(records: list[dict[str, Any]]) -> None:
    ports = get_app().ports
    now = ports.clock.now()
    for record in records:
        gap = gap_from_failure(record["body"], recorded_at=now)
        ports.history.record_gap(gap)
        telemetry().history_gap(gap)
