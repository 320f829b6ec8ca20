"""Inserts on every engine that has them: a row or a window that exists is never replaced."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.inserter import JobInserter, UniqueWindow, WindowTaken
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.store import AlreadyExists, Created, ForgedRow
from tests.conformance.samples import job_with_every_field, make_ready_job, time_at
from tests.conformance.store_fixtures import StoreFixture
from tests.support.dynamo import DynamoFixture
from tests.support.engines import COMPLETE_ENGINES

NIGHTLY = UniqueWindow(name="hubspot", now=time_at(0), until=time_at(600))
ONE, TWO, THREE = (JobKey(f"sync.import:hubspot:{number}") for number in (1, 2, 3))

everywhere = pytest.mark.parametrize("db", COMPLETE_ENGINES, indirect=True)
on_dynamodb = pytest.mark.parametrize("dynamo", COMPLETE_ENGINES, indirect=True)


@pytest.fixture
def inserter(db: StoreFixture) -> JobInserter:
    return db.inserter


def window_at(seconds: float) -> UniqueWindow:
    return replace(NIGHTLY, now=time_at(seconds), until=time_at(seconds + 600))


@everywhere
def test_every_field_is_inserted_as_store_reads_it(db: StoreFixture) -> None:
    job = job_with_every_field()
    assert db.inserter.insert(job) == Created(job)
    assert db.store.get(job.job_key) == job


@everywhere
def test_existing_row_is_returned_and_not_replaced(db: StoreFixture) -> None:
    finished = replace(make_ready_job(ONE), status=Status.FINISHED, fence=1)
    db.store.create(finished)
    assert db.inserter.insert(make_ready_job(ONE)) == AlreadyExists(finished)
    assert db.inserter.insert_unique(make_ready_job(ONE), NIGHTLY) == AlreadyExists(finished)
    assert db.store.get(ONE) == finished


@everywhere
def test_window_and_job_row_are_taken_once(db: StoreFixture) -> None:
    for _ in range(2):  # the same producer's retry counts as created
        inserted = db.inserter.insert_unique(make_ready_job(ONE), NIGHTLY)
        assert inserted == Created(make_ready_job(ONE))
        assert db.store.get(ONE) == make_ready_job(ONE)

    assert db.inserter.insert_unique(make_ready_job(TWO), window_at(1)) == WindowTaken(ONE)
    assert db.store.get(TWO) is None
    other = replace(NIGHTLY, name="other")
    assert db.inserter.insert_unique(make_ready_job(TWO), other) == Created(make_ready_job(TWO))


@everywhere
def test_job_types_do_not_share_windows(db: StoreFixture) -> None:
    push = replace(make_ready_job(JobKey("sync.push:hubspot:7:1")), job_type="sync.push")
    db.inserter.insert_unique(replace(make_ready_job(ONE), job_type="sync.import"), NIGHTLY)
    assert db.inserter.insert_unique(push, NIGHTLY) == Created(push)


@everywhere
@pytest.mark.parametrize(("after", "free"), [(-1, False), (0, True), (1_000_000, True)])
def test_window_is_free_from_its_end(inserter: JobInserter, after: int, *, free: bool) -> None:
    inserter.insert_unique(make_ready_job(ONE), NIGHTLY)
    now = NIGHTLY.until + timedelta(microseconds=after)
    result = inserter.insert_unique(make_ready_job(TWO), replace(NIGHTLY, now=now, until=now))
    assert result == (Created(make_ready_job(TWO)) if free else WindowTaken(ONE))


@everywhere
def test_expired_window_passes_to_new_job(inserter: JobInserter) -> None:
    inserter.insert_unique(make_ready_job(ONE), NIGHTLY)
    inserter.insert_unique(make_ready_job(TWO), window_at(601))
    assert inserter.insert_unique(make_ready_job(THREE), window_at(700)) == WindowTaken(TWO)


@everywhere
def test_window_can_be_taken_over_only_from_its_holder(inserter: JobInserter) -> None:
    inserter.insert_unique(make_ready_job(ONE), NIGHTLY)
    taken = inserter.insert_unique(make_ready_job(TWO), window_at(1), replacing=ONE)
    again = inserter.insert_unique(make_ready_job(THREE), window_at(2), replacing=ONE)
    assert (taken, again) == (Created(make_ready_job(TWO)), WindowTaken(TWO))


@everywhere
def test_existing_job_is_returned_when_other_job_holds_window(db: StoreFixture) -> None:
    db.store.create(make_ready_job(TWO))
    db.inserter.insert_unique(make_ready_job(ONE), NIGHTLY)
    again = replace(make_ready_job(TWO), created_at=time_at(5))
    assert db.inserter.insert_unique(again, window_at(1)) == AlreadyExists(make_ready_job(TWO))
    assert db.store.get(TWO) == make_ready_job(TWO)


@everywhere
def test_existing_job_does_not_take_free_window(db: StoreFixture) -> None:
    db.store.create(make_ready_job(ONE))
    db.inserter.insert_unique(replace(make_ready_job(ONE), created_at=time_at(5)), NIGHTLY)
    inserted = db.inserter.insert_unique(make_ready_job(TWO), NIGHTLY)
    assert inserted == Created(make_ready_job(TWO))


@on_dynamodb
def test_new_job_is_one_call_and_duplicate_reads_its_row(dynamo: DynamoFixture) -> None:
    inserter = dynamo.inserter()
    inserter.insert(make_ready_job(ONE))
    inserter.insert(make_ready_job(ONE))
    assert dynamo.calls.attempts == ["ExecuteStatement", "ExecuteStatement", "GetItem"]
    dynamo.calls.reset()
    inserter.insert_unique(make_ready_job(TWO), NIGHTLY)
    assert dynamo.calls.attempts == ["ExecuteTransaction"]


@on_dynamodb
def test_window_is_named_by_job_type_and_expires_after_its_end(dynamo: DynamoFixture) -> None:
    job = make_ready_job(ONE)
    dynamo.inserter().insert_unique(job, NIGHTLY)
    row = dynamo.row(JobKey(f"unique:{job.job_type}:hubspot"))
    assert row is not None
    assert int(row["expires_at"]["N"]) > NIGHTLY.until.timestamp()


@on_dynamodb
def test_inserted_row_is_in_indexes(dynamo: DynamoFixture) -> None:
    dynamo.inserter().insert(replace(make_ready_job(ONE), due_at=time_at(80)))
    stored = dynamo.row(ONE)
    assert stored is not None
    assert {"due", "due_at"} <= stored.keys()


@everywhere
def test_forged_row_is_returned_and_not_replaced(db: StoreFixture) -> None:
    forged = replace(make_ready_job(ONE), status=Status.FINISHED)
    db.store.create(forged)
    for result in (
        db.inserter.insert(make_ready_job(ONE)),
        db.inserter.insert_unique(make_ready_job(ONE), NIGHTLY),
    ):
        assert result == ForgedRow("finished", seen={})
    assert db.store.get(ONE) == forged
