"""Reads of searches, lists and counts grow with what they show, never with the table."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count, islice

import pytest

from oncely.app import App
from oncely.core.due import DUE_SHARDS, due_shard
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey, job_key
from oncely.core.lifecycle import UNRESOLVED, Status
from oncely.core.row_items import serialize_job
from oncely.operate.job_lists import JobFilter
from oncely.operate.job_queries import MAX_COUNT, JobQueries
from oncely.operate.overview import MAX_REVIEWS
from tests.support.bulk_rows import write_rows
from tests.support.dynamo import DynamoFixture
from tests.support.fakes import START, FakeClock
from tests.support.in_memory_stack import InMemoryStack
from tests.unit import samples

SMALL, LARGE = 500, 3_000
# A page of 25 out of four shards that are each read ten entries at a time, then twenty.
MAX_PAGE_READS = 4 * 10 + 2 * 20
# The reviews of the overview: the entries of the index, read in growing steps, and 100 rows.
MAX_OVERVIEW_READS = 300
# Of a whole view of the overview, as docs/operations.md says.
MAX_VIEW_READS = 5_000


def make_job(number: int) -> JobRow:
    at = START + timedelta(seconds=number)
    return samples.make_job(
        job_key=job_key("payment.charge", str(number), prefix="order_"),
        message={"job": "payment.charge", "v": 1, "order_id": str(number)},
        created_at=at,
        since=at,
        due_at=None,
        status=Status.FAILED if number % 100 else Status.NEEDS_REVIEW,
        customer_id=f"customer_{number % 1000}",
        provider_ref=f"pi_{number}",
    )


def make_rows(numbers: range) -> Iterator[dict[str, object]]:
    return (serialize_job(make_job(number)) for number in numbers)


@dataclass
class ReadCounter:
    app: App
    read: list[int]

    @property
    def inspector(self) -> JobQueries:
        return self.app.job_queries

    def count_reads(self, look: Callable[[JobQueries], object]) -> int:
        self.read.clear()
        assert look(self.inspector)
        return sum(self.read)


@pytest.fixture
def read_counter(dynamo: DynamoFixture) -> ReadCounter:
    read: list[int] = []
    client = dynamo.separate_client()
    events = client.meta.events
    events.register(
        "after-call.dynamodb.Query", lambda parsed, **_: read.append(parsed["ScannedCount"])
    )
    events.register(
        "after-call.dynamodb.BatchGetItem",
        lambda parsed, **_: read.append(sum(map(len, parsed["Responses"].values()))),
    )
    events.register("after-call.dynamodb.Scan", lambda parsed, **_: read.append(parsed["Count"]))
    ports = dynamo.app(client).ports
    world = InMemoryStack(clock=FakeClock(START + timedelta(hours=3)))
    app = world.app(
        store=dynamo.store(client),
        job_index=ports.job_index,
        due_index=ports.due_index,
        gate_table=ports.gate_table,
    )
    return ReadCounter(app, read)


def test_reads_do_not_grow_with_table(dynamo: DynamoFixture, read_counter: ReadCounter) -> None:
    write_rows(dynamo, make_rows(range(SMALL)))
    small = measure_reads(read_counter)
    write_rows(dynamo, make_rows(range(SMALL, LARGE)))

    large = measure_reads(read_counter)

    print(f"items read at {SMALL} jobs {small}, at {LARGE} jobs {large}")  # noqa: T201  # the figures are what a reader wants to see
    assert large["order"] == small["order"] == 1
    assert large["reference"] == small["reference"] == 2
    assert large["customer"] == 2 * LARGE // 1000
    assert large["counts"] <= 2_000
    assert large["page"] <= MAX_PAGE_READS + 25
    assert large["review page"] <= MAX_PAGE_READS + 25
    assert large["overview"] <= MAX_OVERVIEW_READS
    assert large["second page"] <= 2 * MAX_PAGE_READS + 25


@pytest.mark.parametrize("in_one_shard", [False, True], ids=["spread", "in one shard"])
def test_view_of_overview_reads_a_bounded_number_of_items(
    dynamo: DynamoFixture, read_counter: ReadCounter, *, in_one_shard: bool
) -> None:
    """With more jobs than are counted, wherever the index keeps those that are due."""
    at = START + timedelta(hours=2)
    keys = due_keys(in_one_shard=in_one_shard)
    for status in (Status.NEEDS_REVIEW, Status.FAILED, Status.UNKNOWN, Status.READY):
        due_at = at if status in UNRESOLVED else None
        write_rows(
            dynamo,
            (
                serialize_job(samples.make_job(job_key=key, status=status, since=at, due_at=due_at))
                for key in islice(keys, MAX_COUNT + 50)
            ),
        )

    counts = read_counter.app.job_queries.counts()
    state = read_counter.app.overview.state()

    assert set(counts.truncated) == {"needs_review", "unknown", "pending", "failed_today"}
    assert state.reviews_read == MAX_REVIEWS
    assert 4 * MAX_COUNT < sum(read_counter.read) <= MAX_VIEW_READS


def due_keys(*, in_one_shard: bool) -> Iterator[JobKey]:
    keys = (job_key("payment.charge", str(one), prefix="order_") for one in count())
    return (key for key in keys if not in_one_shard or due_shard(key, DUE_SHARDS) == 0)


def measure_reads(read_counter: ReadCounter) -> dict[str, float]:
    began = time.monotonic()
    looks: dict[str, Callable[[JobQueries], object]] = {
        "order": lambda i: i.search("7").jobs[0],
        "customer": lambda i: i.search("customer_7").jobs[0],
        "reference": lambda i: i.search("pi_7").jobs[0],
        "counts": lambda i: i.counts(),
        "page": lambda i: i.list_page(JobFilter(status="failed")).jobs[24],
        "review page": lambda i: i.list_page(JobFilter(status="needs_review")).jobs[4],
        "overview": lambda i: i.list_page(JobFilter(status="failed"), limit=MAX_REVIEWS).jobs[99],
        "second page": lambda i: i.list_page(
            JobFilter(status="failed"), cursor=i.list_page(JobFilter(status="failed")).cursor
        ).jobs[24],
    }
    counts = {name: read_counter.count_reads(look) for name, look in looks.items()}
    return {**counts, "seconds": time.monotonic() - began}
