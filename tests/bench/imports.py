"""CPU time of importing a worker over making one bare client; a fresh interpreter each."""

import subprocess
import sys
from collections.abc import Mapping
from statistics import median
from typing import Final

from tests.bench.figures import Import

ROUNDS: Final = 15
CLIENT: Final = "import boto3; boto3.client('dynamodb')"
WORKER: Final = "import work_queue.handler"
READY: Final = "from work_queue.handler import worker; worker()"
POWERTOOLS: Final = "import tests.bench.powertools_worker"  # it makes its client, too

_VARIABLES: Final = {
    "QUEUE_NAME": "payments",
    "RETENTION_DAYS": "90",
    **dict.fromkeys(
        (
            *("QUEUE_URL", "REJECTS_QUEUE_URL", "ALERT_TOPIC_ARN"),
            *("JOBS_TABLE", "ORDERS_TABLE", "STRIPE_SECRET", "IDEMPOTENCY_TABLE"),
        ),
        "named",
    ),
}


def measure(environment: Mapping[str, str]) -> dict[str, Import]:
    """The figures of each of these lines of code."""
    lines = (CLIENT, WORKER, READY, POWERTOOLS)
    variables = {**environment, **_VARIABLES}
    rounds = [{line: _milliseconds(line, variables) for line in lines} for _ in range(ROUNDS)]
    return {
        line: Import(
            ratio=median(times[line] / times[CLIENT] for times in rounds),
            milliseconds=median(times[line] for times in rounds),
        )
        for line in lines
    }


def _milliseconds(code: str, environment: dict[str, str]) -> float:
    timed = f"import time; began = time.process_time(); {code}; print(time.process_time() - began)"
    told = subprocess.run(
        [sys.executable, "-c", timed],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return 1e3 * float(told.stdout)
