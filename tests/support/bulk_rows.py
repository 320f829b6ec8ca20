"""Tables with many rows, few of them due, and what one sweep reads of them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from oncely.core.job_row import JobRow, new_job
from oncely.core.keys import job_key
from oncely.core.lifecycle import Status
from oncely.core.row_items import Attributes, serialize_job
from oncely.reconcile.due_index import DueIndex
from oncely.reconcile.find_due_work import SweepRequest
from tests.support.dynamo import DynamoFixture
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack


def add_due_jobs(dynamo: DynamoFixture, number: int) -> None:
    write_rows(dynamo, (serialize_job(_job(one)) for one in range(number)))


def add_archived_jobs(dynamo: DynamoFixture, first: int, last: int) -> None:
    """Add jobs that are published and archived: without a due time, so not in the index."""
    keys = (f"{_job(0).job_key}{one}" for one in range(first, last))
    finished = {"S": Status.FINISHED}
    write_rows(dynamo, ({"job_key": {"S": key}, "status": finished} for key in keys))


def count_items_read(dynamo: DynamoFixture) -> tuple[int, int]:
    read: list[int] = []
    client = dynamo.separate_client()
    client.meta.events.register(
        "after-call.dynamodb.Query", lambda parsed, **_: read.append(parsed["ScannedCount"])
    )
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    world.clock.advance(hours=1)
    index = DueIndex(client, dynamo.jobs_table)
    finder = world.app(store=dynamo.store(), due_index=index).due_work_finder
    return len(finder.find(SweepRequest.parse({"job_type": "payment.charge"})).items), sum(read)


def _job(number: int) -> JobRow:
    return new_job(
        job_key("payment.charge", str(number), prefix="order_"),
        "payment.charge",
        {"job": "payment.charge", "v": 1, "order_id": str(number)},
        now=START,
        due_at=START,
        actor="test",
        reason="enqueued",
    )


def write_rows(dynamo: DynamoFixture, rows: Iterator[Attributes]) -> None:
    def write(batch: list[Attributes]) -> None:
        puts: Any = [{"PutRequest": {"Item": row}} for row in batch]
        dynamo.admin.batch_write_item(RequestItems={dynamo.jobs_table: puts})

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(write, iter(lambda: list(islice(rows, 25)), [])))
