"""Unique windows, on every engine: one job of a name at a time, together with its row."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.keys import JobKey
from oncely.ports import AlreadyExists, Created, UniqueWindow, UniqueWindows, WindowTaken
from tests.conformance.samples import make_ready_job, time_at
from tests.conformance.store_fixtures import StoreFixture
from tests.support.dynamo import DynamoFixture

NIGHTLY = UniqueWindow(name="sync.import:hubspot", now=time_at(0), until=time_at(600))
ONE, TWO, THREE = (JobKey(f"sync.import:hubspot:{number}") for number in (1, 2, 3))


@pytest.fixture
def windows(db: StoreFixture) -> UniqueWindows:
    return db.windows


def window_at(seconds: float) -> UniqueWindow:
    return replace(NIGHTLY, now=time_at(seconds), until=time_at(seconds + 600))


def test_window_and_job_row_are_taken_once(db: StoreFixture) -> None:
    for _ in range(2):  # the same producer's retry counts as created
        assert db.windows.create(make_ready_job(ONE), NIGHTLY) == Created(make_ready_job(ONE))
        assert db.store.get(ONE) == make_ready_job(ONE)

    assert db.windows.create(make_ready_job(TWO), window_at(1)) == WindowTaken(ONE)
    assert db.store.get(TWO) is None
    other = replace(NIGHTLY, name="sync.import:other")
    assert db.windows.create(make_ready_job(TWO), other) == Created(make_ready_job(TWO))


@pytest.mark.parametrize(("after", "free"), [(-1, False), (0, True), (1_000_000, True)])
def test_window_is_free_from_its_end(windows: UniqueWindows, after: int, *, free: bool) -> None:
    windows.create(make_ready_job(ONE), NIGHTLY)
    now = NIGHTLY.until + timedelta(microseconds=after)
    result = windows.create(make_ready_job(TWO), replace(NIGHTLY, now=now, until=now))
    assert result == (Created(make_ready_job(TWO)) if free else WindowTaken(ONE))


def test_expired_window_passes_to_new_job(windows: UniqueWindows) -> None:
    windows.create(make_ready_job(ONE), NIGHTLY)
    windows.create(make_ready_job(TWO), window_at(601))
    assert windows.create(make_ready_job(THREE), window_at(700)) == WindowTaken(TWO)


def test_window_can_be_taken_over_only_from_its_holder(windows: UniqueWindows) -> None:
    windows.create(make_ready_job(ONE), NIGHTLY)
    taken = windows.create(make_ready_job(TWO), window_at(1), replacing=ONE)
    again = windows.create(make_ready_job(THREE), window_at(2), replacing=ONE)
    assert (taken, again) == (Created(make_ready_job(TWO)), WindowTaken(TWO))


def test_existing_job_is_returned_when_other_job_holds_window(db: StoreFixture) -> None:
    db.store.create(make_ready_job(TWO))
    db.windows.create(make_ready_job(ONE), NIGHTLY)
    again = replace(make_ready_job(TWO), created_at=time_at(5))
    assert db.windows.create(again, window_at(1)) == AlreadyExists(make_ready_job(TWO))
    assert db.store.get(TWO) == make_ready_job(TWO)


def test_existing_job_does_not_take_free_window(db: StoreFixture) -> None:
    db.store.create(make_ready_job(ONE))
    db.windows.create(replace(make_ready_job(ONE), created_at=time_at(5)), NIGHTLY)
    assert db.windows.create(make_ready_job(TWO), NIGHTLY) == Created(make_ready_job(TWO))


def test_job_and_window_are_written_in_one_call(dynamo: DynamoFixture) -> None:
    windows = dynamo.windows()
    windows.create(make_ready_job(ONE), NIGHTLY)
    windows.create(make_ready_job(TWO), NIGHTLY)
    assert dynamo.calls.attempts == ["TransactWriteItems", "TransactWriteItems"]


def test_window_expires_by_ttl_only_after_its_end(dynamo: DynamoFixture) -> None:
    dynamo.windows().create(make_ready_job(ONE), NIGHTLY)
    row = dynamo.row(JobKey("unique:sync.import:hubspot"))
    assert row is not None
    assert int(row["expires_at"]["N"]) > NIGHTLY.until.timestamp()
