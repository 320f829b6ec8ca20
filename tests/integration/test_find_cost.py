"""What a sweep reads grows with what is due, never with the table."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from oncely.adapters.due_index import DynamoDueIndex
from oncely.adapters.job_rows import SHARD, SHARDS, Attributes, to_attributes
from oncely.domain.jobs import Job, enqueued
from oncely.domain.keys import job_key
from oncely.domain.lifecycle import Status
from oncely.services.find_due import Finder, Sweep
from tests.support.dynamo import Dynamo
from tests.support.fakes import START
from tests.support.world import World

DUE = 10
SMALL, LARGE = 1_000, 100_000


def job(number: int) -> Job:
    return enqueued(
        job_key("payment.charge", str(number), prefix="order_"),
        "payment.charge",
        {"job": "payment.charge", "v": 1, "order_id": str(number)},
        now=START,
        due_at=START,
        actor="test",
        reason="enqueued",
    )


def finished(number: int) -> Attributes:
    """Published and archived: it has no due time, so it is not in the index."""
    key = job(0).job_key + str(number)
    return {
        "job_key": {"S": key},
        "status": {"S": Status.FINISHED},
        SHARD: {"S": str(number % SHARDS)},
    }


def fill(dynamo: Dynamo, rows: Iterator[Attributes]) -> None:
    def write(batch: list[Attributes]) -> None:
        puts: Any = [{"PutRequest": {"Item": row}} for row in batch]
        dynamo.admin.batch_write_item(RequestItems={dynamo.jobs_table: puts})

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(write, iter(lambda: list(islice(rows, 25)), [])))


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
        clock=world.clock,
    )
    found = finder.find(Sweep.of({"job_type": "payment.charge"}))
    return len(found.items), sum(read)


def test_items_read_are_the_same_at_a_thousand_and_at_a_hundred_thousand_rows(
    dynamo: Dynamo,
) -> None:
    fill(dynamo, (to_attributes(job(number)) for number in range(DUE)))
    fill(dynamo, (finished(number) for number in range(SMALL)))
    small = items_read(dynamo)
    fill(dynamo, (finished(number) for number in range(SMALL, LARGE)))

    large = items_read(dynamo)

    told = f"due {DUE}: found and read {small} at {SMALL} rows, {large} at {LARGE} rows"
    print(told)  # noqa: T201  # the figures are what a reader wants to see
    assert small == large == (DUE, DUE)
