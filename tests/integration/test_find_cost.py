"""What a sweep reads grows with what is due, never with the table."""

from datetime import timedelta

from oncely.adapters.due_index import DynamoDueIndex
from oncely.domain.due import Action
from oncely.domain.keys import job_key
from oncely.domain.lifecycle import Status
from tests.support.dynamo import Dynamo
from tests.support.fakes import START
from tests.support.many_rows import fill_with_due, fill_with_ended, items_read
from tests.unit.samples import a_job

DUE = 10
SMALL, LARGE = 500, 5_000  # `make bench` counts it at 100,000


def test_items_read_do_not_grow_with_table(
    dynamo: Dynamo,
) -> None:
    fill_with_due(dynamo, DUE)
    fill_with_ended(dynamo, 0, SMALL)
    small = items_read(dynamo)
    fill_with_ended(dynamo, SMALL, LARGE)

    large = items_read(dynamo)

    told = f"due {DUE}: found and read {small} at {SMALL} rows, {large} at {LARGE} rows"
    print(told)  # noqa: T201  # the figures are what a reader wants to see
    assert small == large == (DUE, DUE)


def test_lookup_query_does_not_read_rows_due_for_send(
    dynamo: Dynamo,
) -> None:
    fill_with_due(dynamo, 500)
    later = START + timedelta(hours=1)
    unknown = a_job(
        job_key=job_key("sync.push", "hubspot", "1", 7), status=Status.UNKNOWN, due_at=later
    )
    dynamo.store().create(unknown)
    client = dynamo.another_client()
    read: list[int] = []
    client.meta.events.register(
        "after-call.dynamodb.Query", lambda parsed, **_: read.append(parsed["ScannedCount"])
    )
    index = DynamoDueIndex(client, dynamo.jobs_table)

    found = [
        one
        for shard in range(index.shards)
        for one in index.due(Action.ASK, shard, since=None, until=later)
    ]

    assert [one.job_key for one in found] == [unknown.job_key]
    assert sum(read) == 1
