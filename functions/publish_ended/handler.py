"""Lambda: publishes and archives each ended job that the table's stream shows."""

import os
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.clients import Clients
from oncely.adapters.wiring import wire_publisher
from oncely.contracts import CONTRACTS
from oncely.domain.errors import OncelyError
from oncely.domain.keys import JobKey
from oncely.services.publish import Publisher
from oncely.settings import PublisherSettings
from oncely.telemetry import observed, telemetry


@cache
def publisher() -> Publisher:
    """Wire once per execution environment."""
    settings = PublisherSettings.from_env(os.environ, CONTRACTS)
    return wire_publisher(settings, CONTRACTS, clients=Clients())


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Publish in order, and stop at the first that fails: the stream skips nothing."""
    for record in event.get("Records", []):
        key = record["dynamodb"]["Keys"]["job_key"]["S"]
        try:
            publisher().publish(JobKey(key))
        except OncelyError as error:
            telemetry().not_published(key, error)
            number = record["dynamodb"]["SequenceNumber"]
            return {"batchItemFailures": [{"itemIdentifier": number}]}
    return {"batchItemFailures": []}
