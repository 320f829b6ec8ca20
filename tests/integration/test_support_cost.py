"""What a search, a list and a count read grows with what they show, never with the table."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from oncely.adapters.due_index import DynamoDueIndex
from oncely.adapters.job_finder import DynamoJobFinder
from oncely.adapters.job_rows import to_attributes
from oncely.domain.jobs import Job, enqueued
from oncely.domain.keys import job_key
from oncely.domain.lifecycle import Status
from oncely.services.inspect import Inspector
from oncely.testing.memory import MemoryFinishedJobs, MemoryJobStore
from tests.support.dynamo import Dynamo
from tests.support.fakes import START, FakeClock
from tests.support.many_rows import fill
from tests.support.world import World

SMALL, LARGE = 500, 3_000
# A page of 25 out of four shards that are each read ten entries at a time, then twenty.
A_PAGE = 4 * 10 + 2 * 20


def job(number: int) -> Job:
    order_id = f"{number}"
    at = START + timedelta(seconds=number)
    made = enqueued(
        job_key("payment.charge", order_id, prefix="order_"),
        "payment.charge",
        {"job": "payment.charge", "v": 1, "order_id": order_id},
        now=at,
        due_at=at,
        actor="test",
        reason="enqueued",
    )
    status = Status.FAILED if number % 100 else Status.NEEDS_REVIEW
    return replace(
        made,
        status=status,
        since=at,
        due_at=None,
        customer_id=f"customer_{number % 1000}",
        provider_ref=f"pi_{number}",
    )


def jobs(numbers: range) -> Iterator[dict[str, object]]:
    return (to_attributes(job(number)) for number in numbers)


@dataclass
class Counted:
    """An inspector, and how many index entries and rows it has read."""

    inspector: Inspector
    read: list[int]

    def reading(self, look: Callable[[Inspector], object]) -> int:
        """How many items one look reads."""
        self.read.clear()
        assert look(self.inspector)
        return sum(self.read)


@pytest.fixture
def counted(dynamo: Dynamo) -> Counted:
    read: list[int] = []
    client = dynamo.another_client()
    events = client.meta.events
    events.register(
        "after-call.dynamodb.Query", lambda parsed, **_: read.append(parsed["ScannedCount"])
    )
    events.register(
        "after-call.dynamodb.BatchGetItem",
        lambda parsed, **_: read.append(sum(map(len, parsed["Responses"].values()))),
    )
    inspector = Inspector(
        registry=World().registry,
        store=dynamo.store(),
        finder=DynamoJobFinder(client, dynamo.jobs_table),
        index=DynamoDueIndex(client, dynamo.jobs_table),
        finished=MemoryFinishedJobs(MemoryJobStore()),
        clock=FakeClock(START + timedelta(hours=3)),
    )
    return Counted(inspector, read)


def test_items_read_do_not_grow_with_table(dynamo: Dynamo, counted: Counted) -> None:
    fill(dynamo, jobs(range(SMALL)))
    small = figures(counted)
    fill(dynamo, jobs(range(SMALL, LARGE)))

    large = figures(counted)

    print(f"items read at {SMALL} jobs {small}, at {LARGE} jobs {large}")  # noqa: T201  # the figures are what a reader wants to see
    assert large["order"] == small["order"] == 1
    assert large["reference"] == small["reference"] == 2
    assert large["customer"] == 2 * LARGE // 1000
    assert large["counts"] <= 2_000
    assert large["page"] <= A_PAGE + 25
    assert large["review page"] <= A_PAGE + 25
    assert large["second page"] <= 2 * A_PAGE + 25


def figures(counted: Counted) -> dict[str, float]:
    began = time.monotonic()
    told = {
        "order": counted.reading(lambda i: i.find("7").jobs[0]),
        "customer": counted.reading(lambda i: i.find("customer_7").jobs[0]),
        "reference": counted.reading(lambda i: i.find("pi_7").jobs[0]),
        "counts": counted.reading(lambda i: i.counts()),
        "page": counted.reading(lambda i: i.page(status="failed").jobs[24]),
        "review page": counted.reading(lambda i: i.page(status="needs_review").jobs[4]),
        "second page": counted.reading(
            lambda i: i.page(status="failed", cursor=i.page(status="failed").cursor).jobs[24],
        ),
    }
    return {**told, "seconds": time.monotonic() - began}
