"""Tables with many rows, few of them due, and what one sweep reads of them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from oncely.adapters.due_index import DynamoDueIndex
from oncely.adapters.job_rows import Attributes, to_attributes
from oncely.domain.jobs import Job, enqueued
from oncely.domain.keys import job_key
from oncely.domain.lifecycle import Status
from oncely.services.find_due import Finder, Sweep
from oncely.testing.memory import MemorySweepLeases
from tests.support.dynamo import Dynamo
from tests.support.fakes import START
from tests.support.world import World


def fill_with_due(dynamo: Dynamo, number: int) -> None:
    """Add jobs that a sweep must find."""
    fill(dynamo, (to_attributes(_job(one)) for one in range(number)))


def fill_with_ended(dynamo: Dynamo, first: int, last: int) -> None:
    """Add jobs that are published and archived: without a due time, so not in the index."""
    fill(dynamo, (_ended(one) for one in range(first, last)))


def items_read(dynamo: Dynamo) -> tuple[int, int]:
    """How many items one sweep finds, and how many DynamoDB reads for it."""
    read: list[int] = []
    client = dynamo.another_client()
    client.meta.events.register(
        "after-call.dynamodb.Query", lambda parsed, **_: read.append(parsed["ScannedCount"])
    )
    world = World(store=dynamo.store(), rows=dynamo.rows())
    world.clock.move(hours=1)
    finder = Finder(
        registry=world.registry,
        tools=world.tools,
        store=dynamo.store(),
        index=DynamoDueIndex(client, dynamo.jobs_table),
        leases=MemorySweepLeases(),
        clock=world.clock,
        guard=world.table,
    )
    found = finder.find(Sweep.of({"job_type": "payment.charge"}))
    return len(found.items), sum(read)


def _job(number: int) -> Job:
    return enqueued(
        job_key("payment.charge", str(number), prefix="order_"),
        "payment.charge",
        {"job": "payment.charge", "v": 1, "order_id": str(number)},
        now=START,
        due_at=START,
        actor="test",
        reason="enqueued",
    )


def _ended(number: int) -> Attributes:
    return {
        "job_key": {"S": f"{_job(0).job_key}{number}"},
        "status": {"S": Status.FINISHED},
    }


def fill(dynamo: Dynamo, rows: Iterator[Attributes]) -> None:
    """Write rows, a batch at a time."""

    def write(batch: list[Attributes]) -> None:
        puts: Any = [{"PutRequest": {"Item": row}} for row in batch]
        dynamo.admin.batch_write_item(RequestItems={dynamo.jobs_table: puts})

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(write, iter(lambda: list(islice(rows, 25)), [])))
