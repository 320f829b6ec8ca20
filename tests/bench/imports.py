"""CPU time of a cold start compared with creating one bare client, in alternating new processes."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.bench.figures import ImportTime

ROUNDS: Final = 15


@dataclass(frozen=True, eq=False)
class ImportProbe:
    code: str
    env_vars: Mapping[str, str] = field(default_factory=dict)


_LAMBDA_ENV_VARS: Final = {
    "AWS_LAMBDA_FUNCTION_NAME": "worker",
    "SES_SENDER_ADDRESS": "shop@example.com",
}

CLIENT: Final = ImportProbe("import boto3; boto3.client('dynamodb')")
WORKER: Final = ImportProbe("import oncely.handlers.process_queue")
# As Lambda's init phase does it. The mail worker needs no provider's SDK; Stripe's own import
# comes on top in the payments worker.
READY: Final = ImportProbe(
    "import oncely.handlers.process_queue",
    {
        **_LAMBDA_ENV_VARS,
        "QUEUE_NAME": "mail",
        "ONCELY_JOBS": "oncely.jobs.receipt_send:ReceiptSend",
    },
)
READY_WITH_STRIPE: Final = ImportProbe(
    "import oncely.handlers.process_queue",
    {
        **_LAMBDA_ENV_VARS,
        "QUEUE_NAME": "payments",
        "ONCELY_JOBS": "oncely.jobs.payment_charge:PaymentCharge",
    },
)
POWERTOOLS: Final = ImportProbe(
    "import tests.bench.powertools_worker"
)  # it also creates its client

_VARIABLES: Final = {
    "RETENTION_DAYS": "90",
    # Otherwise the SDK would look for a role of this machine.
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    **dict.fromkeys(
        (
            *("QUEUE_URL", "REJECTS_QUEUE_URL", "ALERT_TOPIC_ARN", "ARCHIVE_BUCKET"),
            *("JOBS_TABLE", "GATES_TABLE", "ORDERS_TABLE", "STRIPE_SECRET", "IDEMPOTENCY_TABLE"),
        ),
        "named",
    ),
}

_TIMED: Final = """
from resource import RUSAGE_SELF, getrusage
began = getrusage(RUSAGE_SELF).ru_utime
{code}
print(getrusage(RUSAGE_SELF).ru_utime - began)
"""


def measure(environment: Mapping[str, str]) -> dict[ImportProbe, ImportTime]:
    starts = (CLIENT, WORKER, READY, READY_WITH_STRIPE, POWERTOOLS)
    rounds = [{one: _milliseconds(one, environment) for one in starts} for _ in range(ROUNDS)]
    return {
        one: ImportTime(
            ratio=median(times[one] / times[CLIENT] for times in rounds),
            milliseconds=median(times[one] for times in rounds),
        )
        for one in starts
    }


def _milliseconds(start: ImportProbe, environment: Mapping[str, str]) -> float:
    told = subprocess.run(
        [sys.executable, "-c", _TIMED.format(code=start.code)],
        env={"AWS_DEFAULT_REGION": "us-east-1", **environment, **_VARIABLES, **start.env_vars},
        capture_output=True,
        text=True,
        check=True,
    )
    return 1e3 * float(told.stdout)
