"""The producer's side, wired: what an application imports to send jobs."""

from collections.abc import Iterable, Mapping

import boto3

from oncely.adapters.aws import DYNAMODB, MESSAGING
from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.adapters.dynamodb_windows import DynamoUniqueWindows
from oncely.adapters.sqs import SqsMessageSender
from oncely.adapters.system import SystemClock, new_owner_token
from oncely.contract import AnyContract
from oncely.contracts import CONTRACTS
from oncely.domain.errors import NotConfiguredError
from oncely.registry import ContractRegistry
from oncely.services.enqueue import Enqueuer


def create_producer(
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

    def outbox(queue: str) -> SqsMessageSender:
        if url := queue_urls.get(queue):
            return SqsMessageSender(client=sqs, queue_url=url)
        raise NotConfiguredError(f"no address is given for queue {queue!r}; pass it in queue_urls")

    return Enqueuer(
        registry=ContractRegistry(contracts),
        store=store,
        windows=DynamoUniqueWindows(dynamodb, store),
        sender_for_queue=outbox,
        clock=SystemClock(),
        new_token=new_owner_token,
    )
