"""A model of what a million jobs cost: counted calls and measured rows, times list prices."""

import json
import math
from typing import Final

from infra.stages import Stage
from oncely.domain.keys import JobKey
from tests.bench.batches import BATCH
from tests.bench.contenders import Oncely, fresh
from tests.bench.figures import Batch, Price

# US dollars for a million, us-east-1, list prices from memory and without free tier; DynamoDB on
# demand, Lambda on ARM. docs/costs.md counts a whole order with its receipt at the same prices.
WRITE_UNIT: Final = 0.625
READ_UNIT: Final = 0.125
S3_PUT: Final = 5.0
S3_GET: Final = 0.4
SQS_REQUEST: Final = 0.4
EVENT: Final = 1.0
INVOCATION: Final = 0.2
GIGABYTE_SECOND: Final = 13.3334
LOG_GIGABYTE: Final = 0.5

_UNIT_BYTES: Final = 1024
# A row's three writes, and what they do to the due index: an entry is made, moved and removed,
# and moving takes two.
_ROW_WRITES: Final = 3
_INDEX_WRITES: Final = 4
# Assumed, as in docs/costs.md: publishing ten ended jobs, and a job's log lines.
_PUBLISHING: Final = 0.6 / 10  # seconds a job
_LOG_KILOBYTES: Final = 1.5


def model(oncely: Oncely, batch: Batch, powertools_batch: Batch) -> tuple[Price, ...]:
    """The bill by service, of jobs without rows of their own and a provider that takes 200 ms."""
    gigabytes: float = Stage.model_fields["worker_memory_mb"].default / 1024
    units = math.ceil(_row_bytes(oncely) / _UNIT_BYTES) * (_ROW_WRITES + _INDEX_WRITES)
    requests = 1 + 2 / BATCH  # sent; received and deleted by the batch

    def working(one: Batch) -> float:
        return (INVOCATION + GIGABYTE_SECOND * gigabytes * one.seconds) / BATCH

    publishing = INVOCATION / BATCH + GIGABYTE_SECOND * _PUBLISHING / 4  # 256 MB
    return (
        _price("DynamoDB writes", WRITE_UNIT * units, WRITE_UNIT * 2),
        _price("DynamoDB reads", READ_UNIT, 0),
        _price("S3: the archive is asked once and written once", S3_GET + S3_PUT, 0),
        _price("EventBridge", EVENT, 0),
        _price("SQS", SQS_REQUEST * requests, SQS_REQUEST * requests),
        _price("Lambda: working", working(batch), working(powertools_batch)),
        _price("Lambda: publishing", publishing, 0),
        _price("Logs", LOG_GIGABYTE * _LOG_KILOBYTES, 0),
    )


def _price(what: str, oncely: float, powertools: float) -> Price:
    return Price(what=what, oncely=oncely, powertools=powertools)


def _row_bytes(oncely: Oncely) -> int:
    """A finished row as DynamoDB counts it, near enough: names and values."""
    [body] = fresh(1)
    oncely.work([body])
    row = oncely.dynamo.row(JobKey(f"test.ping:{json.loads(body)['number']}"))
    assert row is not None
    return sum(len(name) + len(str(*value.values())) for name, value in row.items())
