"""Bytes that jobs write to their log: the shipped telemetry, with names of real length."""

import io
import json
import logging
import sys
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from oncely.handlers.telemetry import Telemetry
from oncely_local.engine import REGION
from tests.bench.prices import LINE_BYTES, PLATFORM_BYTES, PLATFORM_LINES
from tests.bench.shipped_jobs import JobSample, new_world
from tests.support.worker import BatchHarness, FakeContext, make_delivery

_SERVICE = "Oncely-prod"
_FUNCTION = "Oncely-prod-PaymentsWorkerFunction8A92A558-kq3VbX9sT2Lm"
_TRACE = "Root=1-65f1c2aa-0123456789abcdef01234567;Parent=53995c3f42cd8ad8;Sampled=0"
_ENVIRONMENT = {"POWERTOOLS_SERVICE_NAME": _SERVICE, "_X_AMZN_TRACE_ID": _TRACE}
_CONTEXT = FakeContext(
    function_name=_FUNCTION,
    memory_limit_in_mb=512,
    invoked_function_arn=f"arn:aws:lambda:{REGION}:123456789012:function:{_FUNCTION}",
    aws_request_id="8d1f0a52-3c1e-5b1f-9f0a-2c6f0b9e7d11",
)


@dataclass(frozen=True, kw_only=True)
class LogBytes:
    """The billed log bytes: our lines, and Lambda's own."""

    job_lines: int  # one job's share of the lines about outcomes
    metrics: int  # the line of metrics of the batch
    platform: int  # Lambda's lines of the invocation

    def per_job(self, batch: int) -> float:
        return self.job_lines + (self.metrics + self.platform) / batch


def measure(sample: JobSample) -> LogBytes:
    _record(sample)  # the first line reports a cold start
    *job_lines, metrics = _record(sample)
    assert '"CloudWatchMetrics"' in metrics, metrics
    return LogBytes(
        job_lines=sum(LINE_BYTES + len(line.encode()) for line in job_lines),
        metrics=LINE_BYTES + len(metrics.encode()),
        platform=PLATFORM_BYTES + PLATFORM_LINES * LINE_BYTES,
    )


def _record(sample: JobSample) -> list[str]:
    world = new_world(contracts=sample.contracts())
    sample.seed(world)
    worker = BatchHarness(world=world)
    lines = io.StringIO()
    with patch.dict("os.environ", _ENVIRONMENT), patch.object(sys, "stdout", lines):
        telemetry = Telemetry.create()
        for output in logging.getLogger(_SERVICE).handlers:
            vars(output)["stream"] = lines  # Powertools keeps its first output stream

        def handle(event: dict[str, Any], _: object) -> dict[str, Any]:
            telemetry.record_deliveries(worker.process(make_delivery(json.dumps(event))))
            return {}

        telemetry.wrap_handler(handle)(dict(sample.message), _CONTEXT)
    return lines.getvalue().splitlines()
