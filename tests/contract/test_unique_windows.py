"""Unique windows, on every engine: one job of a name at a time, together with its row."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.ports import Created, Exists, UniqueWindows, Window, WindowHeld
from tests.contract.places import Place
from tests.contract.samples import a_ready_job, at
from tests.support.dynamo import Dynamo

NIGHTLY = Window(name="sync.import:hubspot", now=at(0), until=at(600))
ONE = JobKey("sync.import:hubspot:1")
TWO = JobKey("sync.import:hubspot:2")


@pytest.fixture
def windows(place: Place) -> UniqueWindows:
    return place.windows


def a_job(key: JobKey) -> Job:
    return a_ready_job(key)


def later(seconds: float) -> Window:
    return replace(NIGHTLY, now=at(seconds), until=at(seconds + 600))


def test_free_window_is_taken_with_job_row(place: Place) -> None:
    assert place.windows.create(a_job(ONE), NIGHTLY) == Created(a_job(ONE))
    assert place.store.get(ONE) == a_job(ONE)


def test_taken_window_returns_holder_and_writes_no_row(place: Place) -> None:
    place.windows.create(a_job(ONE), NIGHTLY)

    assert place.windows.create(a_job(TWO), later(1)) == WindowHeld(ONE)
    assert place.store.get(TWO) is None


def test_windows_of_other_names_are_free(windows: UniqueWindows) -> None:
    windows.create(a_job(ONE), NIGHTLY)

    other = replace(NIGHTLY, name="sync.import:other")

    assert windows.create(a_job(TWO), other) == Created(a_job(TWO))


@pytest.mark.parametrize(
    ("after", "free"),
    [(timedelta(microseconds=-1), False), (timedelta(0), True), (timedelta(seconds=1), True)],
)
def test_window_is_free_from_its_end(
    windows: UniqueWindows, after: timedelta, *, free: bool
) -> None:
    windows.create(a_job(ONE), NIGHTLY)
    window = replace(NIGHTLY, now=NIGHTLY.until + after, until=NIGHTLY.until + after * 2)

    result = windows.create(a_job(TWO), window)

    assert result == (Created(a_job(TWO)) if free else WindowHeld(ONE))


def test_expired_window_passes_to_new_job(windows: UniqueWindows) -> None:
    windows.create(a_job(ONE), NIGHTLY)
    windows.create(a_job(TWO), later(601))

    three = a_job(JobKey("sync.import:hubspot:3"))

    assert windows.create(three, later(700)) == WindowHeld(TWO)


def test_window_can_be_taken_over_from_named_holder(windows: UniqueWindows) -> None:
    windows.create(a_job(ONE), NIGHTLY)

    assert windows.create(a_job(TWO), later(1), instead_of=ONE) == Created(a_job(TWO))


def test_takeover_fails_when_named_job_no_longer_holds_window(
    windows: UniqueWindows,
) -> None:
    windows.create(a_job(ONE), NIGHTLY)
    windows.create(a_job(TWO), later(1), instead_of=ONE)

    three = a_job(JobKey("sync.import:hubspot:3"))

    assert windows.create(three, later(2), instead_of=ONE) == WindowHeld(TWO)


def test_existing_job_is_returned_when_other_job_holds_window(place: Place) -> None:
    place.store.create(a_job(TWO))
    place.windows.create(a_job(ONE), NIGHTLY)
    again = replace(a_job(TWO), created_at=at(5))

    assert place.windows.create(again, later(1)) == Exists(a_job(TWO))
    assert place.store.get(TWO) == a_job(TWO)


def test_existing_job_does_not_take_free_window(place: Place) -> None:
    place.store.create(a_job(ONE))
    place.windows.create(replace(a_job(ONE), created_at=at(5)), NIGHTLY)

    assert place.windows.create(a_job(TWO), NIGHTLY) == Created(a_job(TWO))


def test_identical_create_counts_as_created(place: Place) -> None:
    place.windows.create(a_job(ONE), NIGHTLY)

    assert place.windows.create(a_job(ONE), NIGHTLY) == Created(a_job(ONE))


def test_job_and_window_are_written_in_one_call(dynamo: Dynamo) -> None:
    windows = dynamo.windows()

    windows.create(a_job(ONE), NIGHTLY)
    windows.create(a_job(TWO), NIGHTLY)

    assert dynamo.calls.tries == ["TransactWriteItems", "TransactWriteItems"]


def test_window_expires_by_ttl_only_after_its_end(dynamo: Dynamo) -> None:
    dynamo.windows().create(a_job(ONE), NIGHTLY)

    row = dynamo.row(JobKey("unique:sync.import:hubspot"))

    assert row is not None
    assert int(row["expires_at"]["N"]) > NIGHTLY.until.timestamp()
