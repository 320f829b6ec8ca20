"""The same job on Powertools, as its documentation shows it: idempotency and batch.

Its best documented settings: the business id as the key, the Lambda context registered, and the
message validated before anything is stored.
"""

import os
import time
from typing import Any, Literal

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import BaseModel, ConfigDict


class PingRecord(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    job: Literal["test.ping"]
    v: Literal[1]
    number: int


processor = BatchProcessor(event_type=EventType.SQS)
store = DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"])
config = IdempotencyConfig(event_key_jmespath="number")

# The provider: how long it takes, and when each call began and ended.
latency = [0.0]
bars: list[tuple[float, float]] = []


@idempotent_function(data_keyword_argument="ping", config=config, persistence_store=store)  # type: ignore[untyped-decorator]  # its own types are partial
def handle_ping(ping: PingRecord) -> dict[str, Any]:
    began = time.perf_counter()
    time.sleep(latency[0])
    bars.append((began, time.perf_counter()))
    return {"pong": ping.number}


def record_handler(record: SQSRecord) -> dict[str, Any]:
    answered: dict[str, Any] = handle_ping(ping=PingRecord.model_validate_json(record.body))
    return answered


def lambda_handler(event: dict[str, Any], context: LambdaContext) -> Any:  # noqa: ANN401  # Lambda's
    config.register_lambda_context(context)
    return process_partial_response(
        event=event, record_handler=record_handler, processor=processor, context=context
    )
