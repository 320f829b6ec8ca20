"""Unique windows, on every engine: one job of a name at a time, together with its row."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.ports import AlreadyExists, Created, UniqueWindow, UniqueWindows, WindowTaken
from tests.conformance.samples import make_ready_job, time_at
from tests.conformance.store_fixtures import StoreFixture
from tests.support.dynamo import DynamoFixture

NIGHTLY = UniqueWindow(name="sync.import:hubspot", now=time_at(0), until=time_at(600))
ONE = JobKey("sync.import:hubspot:1")
TWO = JobKey("sync.import:hubspot:2")


@pytest.fixture
def windows(db: StoreFixture) -> UniqueWindows:
    return db.windows


def make_job(key: JobKey) -> Job:
    return make_ready_job(key)


def window_at(seconds: float) -> UniqueWindow:
    return replace(NIGHTLY, now=time_at(seconds), until=time_at(seconds + 600))


def test_free_window_is_taken_with_job_row(db: StoreFixture) -> None:
    assert db.windows.create(make_job(ONE), NIGHTLY) == Created(make_job(ONE))
    assert db.store.get(ONE) == make_job(ONE)


def test_taken_window_returns_holder_and_writes_no_row(db: StoreFixture) -> None:
    db.windows.create(make_job(ONE), NIGHTLY)

    assert db.windows.create(make_job(TWO), window_at(1)) == WindowTaken(ONE)
    assert db.store.get(TWO) is None


def test_windows_of_other_names_are_free(windows: UniqueWindows) -> None:
    windows.create(make_job(ONE), NIGHTLY)

    other = replace(NIGHTLY, name="sync.import:other")

    assert windows.create(make_job(TWO), other) == Created(make_job(TWO))


@pytest.mark.parametrize(
    ("after", "free"),
    [(timedelta(microseconds=-1), False), (timedelta(0), True), (timedelta(seconds=1), True)],
)
def test_window_is_free_from_its_end(
    windows: UniqueWindows, after: timedelta, *, free: bool
) -> None:
    windows.create(make_job(ONE), NIGHTLY)
    window = replace(NIGHTLY, now=NIGHTLY.until + after, until=NIGHTLY.until + after * 2)

    result = windows.create(make_job(TWO), window)

    assert result == (Created(make_job(TWO)) if free else WindowTaken(ONE))


def test_expired_window_passes_to_new_job(windows: UniqueWindows) -> None:
    windows.create(make_job(ONE), NIGHTLY)
    windows.create(make_job(TWO), window_at(601))

    three = make_job(JobKey("sync.import:hubspot:3"))

    assert windows.create(three, window_at(700)) == WindowTaken(TWO)


def test_window_can_be_taken_over_from_named_holder(windows: UniqueWindows) -> None:
    windows.create(make_job(ONE), NIGHTLY)

    assert windows.create(make_job(TWO), window_at(1), replacing=ONE) == Created(make_job(TWO))


def test_takeover_fails_when_named_job_no_longer_holds_window(windows: UniqueWindows) -> None:
    windows.create(make_job(ONE), NIGHTLY)
    windows.create(make_job(TWO), window_at(1), replacing=ONE)

    three = make_job(JobKey("sync.import:hubspot:3"))

    assert windows.create(three, window_at(2), replacing=ONE) == WindowTaken(TWO)


def test_existing_job_is_returned_when_other_job_holds_window(db: StoreFixture) -> None:
    db.store.create(make_job(TWO))
    db.windows.create(make_job(ONE), NIGHTLY)
    again = replace(make_job(TWO), created_at=time_at(5))

    assert db.windows.create(again, window_at(1)) == AlreadyExists(make_job(TWO))
    assert db.store.get(TWO) == make_job(TWO)


def test_existing_job_does_not_take_free_window(db: StoreFixture) -> None:
    db.store.create(make_job(ONE))
    db.windows.create(replace(make_job(ONE), created_at=time_at(5)), NIGHTLY)

    assert db.windows.create(make_job(TWO), NIGHTLY) == Created(make_job(TWO))


def test_identical_create_counts_as_created(db: StoreFixture) -> None:
    db.windows.create(make_job(ONE), NIGHTLY)

    assert db.windows.create(make_job(ONE), NIGHTLY) == Created(make_job(ONE))


def test_job_and_window_are_written_in_one_call(dynamo: DynamoFixture) -> None:
    windows = dynamo.windows()

    windows.create(make_job(ONE), NIGHTLY)
    windows.create(make_job(TWO), NIGHTLY)

    assert dynamo.calls.attempts == ["TransactWriteItems", "TransactWriteItems"]


def test_window_expires_by_ttl_only_after_its_end(dynamo: DynamoFixture) -> None:
    dynamo.windows().create(make_job(ONE), NIGHTLY)

    row = dynamo.row(JobKey("unique:sync.import:hubspot"))

    assert row is not None
    assert int(row["expires_at"]["N"]) > NIGHTLY.until.timestamp()
