"""A table that was restored on a real engine: refused, restored from the history, and opened."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.store import JobStore
from oncely.core.table_guard import (
    MAX_INVOCATION_TIME,
    DynamoTableIdentity,
    TableBlocked,
    TableGuard,
    TableOpen,
)
from oncely.history.lines import history_line
from oncely.history.sources import RowScan
from oncely.operate.restore_proofs import Declaration
from tests.support.dynamo import DynamoFixture
from tests.support.fakes import FakeClock
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.samples import NOW, make_job

LOST, OLD, OPEN = (JobKey(f"payment.charge:order_{name}") for name in ("lost", "old", "open"))
LATER = NOW + timedelta(hours=1)


@pytest.fixture
def dynamo(request: pytest.FixtureRequest, no_profile: None) -> Iterator[DynamoFixture]:
    """MiniStack: moto's tables have no id."""
    with closing(DynamoFixture(request.getfixturevalue("ministack"))) as tables:
        tables.protect()
        tables.app(tables.admin).table_initializer.run()
        yield tables


def restore_table(dynamo: DynamoFixture) -> str:
    name = f"{dynamo.jobs_table}-restored"
    dynamo.admin.restore_table_to_point_in_time(
        SourceTableName=dynamo.jobs_table, TargetTableName=name, UseLatestRestorableTime=True
    )
    dynamo.jobs_table = name
    dynamo.protect()
    return name


def test_restored_table_opens_after_proofs_are_restored(dynamo: DynamoFixture) -> None:
    before = dynamo.store()
    for key in (OLD, OPEN):
        before.create(make_job(job_key=key, status=Status.STARTED, version=1, deployment="dev"))
    # Somebody inserted it before the job, of which only the history knows.
    dynamo.admin.put_item(TableName=dynamo.jobs_table, Item={"job_key": {"S": LOST}})
    name = restore_table(dynamo)
    table = DynamoTableIdentity(dynamo.client, name)
    clock = FakeClock(LATER)
    assert isinstance(TableGuard(table, clock).check(), TableBlocked)

    world = InMemoryStack(clock=clock)
    ended = [
        make_job(
            job_key=key,
            status=Status.FINISHED,
            version=4,
            provider_ref="pi_1",
            result={"charge_id": "ch_1"},
            expires_at=NOW + timedelta(days=400),
            due_at=None,
        )
        for key in (LOST, OLD)
    ]
    lines = [history_line(None, job, generation="T1", at=NOW) for job in ended]
    world.history.put(NOW.date(), "payment.charge", "one", [line for line in lines if line])
    store = JobStore(client=dynamo.client, table=name, tables={})
    scan = RowScan(dynamo.client, name)
    service = world.app(store=store, table_identity=table, row_scan=scan).proof_restorer

    done = service.replace_table(replays_for=timedelta(days=18))

    assert isinstance(done, Declaration), done
    assert (done.rows_read, done.rows_written, done.unresolved) == (2, 3, 1)
    for key in (LOST, OLD):
        row = store.get(key)
        assert row is not None
        assert (row.status, row.provider_ref) == (Status.FINISHED, "pi_1")
        assert (row.due_at, row.result) == (None, {"charge_id": "ch_1"})
    still = store.get(OPEN)
    assert still is not None
    assert (still.status, still.due_at, still.owner) == (Status.UNKNOWN, LATER, None)
    due = dynamo.admin.scan(TableName=name, IndexName="due").get("Items", [])
    assert [row["job_key"]["S"] for row in due] == [OPEN]
    guard = TableGuard(table, clock)
    assert isinstance(guard.check(), TableBlocked), "workers from before may still run"
    clock.time += MAX_INVOCATION_TIME + timedelta(minutes=1)
    assert guard.check() == TableOpen(
        deployment=done.identity.deployment, replays_until=LATER + timedelta(days=18)
    )
    again = service.replace_table(replays_for=timedelta(days=18))
    assert not isinstance(again, Declaration), "it is declared already"
