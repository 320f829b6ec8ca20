"""The producer's side, wired: what an application imports to send jobs."""

from collections.abc import Iterable, Mapping

import boto3

from oncely.aws.client_config import DYNAMODB, MESSAGING
from oncely.aws.dynamodb_job_store import DynamoJobStore
from oncely.aws.dynamodb_unique_windows import DynamoUniqueWindows
from oncely.aws.sqs import SqsMessageSender
from oncely.aws.system import SystemClock, new_owner_token
from oncely.contract import AnyContract
from oncely.domain.errors import NotConfiguredError
from oncely.enqueue.enqueuer import Enqueuer
from oncely.jobs import CONTRACTS
from oncely.registry import ContractRegistry


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
