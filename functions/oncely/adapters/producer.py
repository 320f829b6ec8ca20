"""The producer's side, wired: what an application imports to send jobs."""

from collections.abc import Iterable, Mapping

import boto3

from oncely.adapters.aws import DYNAMODB, MESSAGING
from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.adapters.dynamodb_windows import DynamoWindows
from oncely.adapters.sqs import SqsOutbox
from oncely.adapters.system import SystemClock, new_token
from oncely.contract import AnyContract
from oncely.contracts import CONTRACTS
from oncely.domain.errors import NotConfiguredError
from oncely.registry import Registry
from oncely.services.enqueue import Enqueuer


def producer(
    *,
    jobs_table: str,
    queue_urls: Mapping[str, str],
    contracts: Iterable[type[AnyContract]] = CONTRACTS,
) -> Enqueuer:
    """An enqueuer for these queues, by their short names: {"payments": "https://…"}."""
    session = boto3.Session()
    dynamodb = session.client("dynamodb", config=DYNAMODB)
    sqs = session.client("sqs", config=MESSAGING)
    store = DynamoJobStore(client=dynamodb, table=jobs_table, tables={})

    def outbox(queue: str) -> SqsOutbox:
        if url := queue_urls.get(queue):
            return SqsOutbox(client=sqs, queue_url=url)
        raise NotConfiguredError(f"no address is given for queue {queue!r}; pass it in queue_urls")

    return Enqueuer(
        registry=Registry(contracts),
        store=store,
        windows=DynamoWindows(dynamodb, store),
        outbox=outbox,
        clock=SystemClock(),
        new_token=new_token,
    )
