"""Reads of a sweep grow with the due jobs, never with the table."""

from datetime import timedelta

from oncely.core.due import DueAction
from oncely.core.keys import job_key
from oncely.core.lifecycle import Status
from oncely.reconcile.due_index import DueIndex
from tests.support.bulk_rows import add_archived_jobs, add_due_jobs, count_items_read
from tests.support.dynamo import DynamoFixture
from tests.support.fakes import START
from tests.unit.samples import make_job

DUE = 10
SMALL, LARGE = 500, 5_000  # `make bench` counts it at 100,000


def test_reads_do_not_grow_with_table(dynamo: DynamoFixture) -> None:
    add_due_jobs(dynamo, DUE)
    add_archived_jobs(dynamo, 0, SMALL)
    small = count_items_read(dynamo)
    add_archived_jobs(dynamo, SMALL, LARGE)

    large = count_items_read(dynamo)

    figures = f"due {DUE}: found and read {small} at {SMALL} rows, {large} at {LARGE} rows"
    print(figures)  # noqa: T201  # the figures are what a reader wants to see
    assert small == large == (DUE, DUE)


def test_lookup_query_does_not_read_rows_due_for_send(dynamo: DynamoFixture) -> None:
    add_due_jobs(dynamo, 500)
    later = START + timedelta(hours=1)
    key = job_key("sync.push", "hubspot", "1", 7)
    unknown = make_job(job_key=key, status=Status.UNKNOWN, due_at=later)
    dynamo.store().create(unknown)
    client = dynamo.separate_client()
    read: list[int] = []
    client.meta.events.register(
        "after-call.dynamodb.Query", lambda parsed, **_: read.append(parsed["ScannedCount"])
    )
    index = DueIndex(client, dynamo.jobs_table)

    found = [
        one
        for shard in range(index.shards)
        for one in index.due(DueAction.LOOK_UP, shard, since=None, until=later)
    ]

    assert ([one.job_key for one in found], sum(read)) == ([unknown.job_key], 1)
