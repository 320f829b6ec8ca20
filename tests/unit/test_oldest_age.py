"""The age of the oldest unresolved job, for the alarm, from a bounded number of rows."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.errors import UnavailableError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.reconcile.find_due_work import MAX_AGE_READS
from tests.support.in_memory_stack import InMemoryStack
from tests.support.stored_rows import InspectableStore
from tests.unit.samples import make_job


def add_due_job(
    world: InMemoryStack, number: int, status: Status = Status.UNKNOWN, **changes: object
) -> None:
    key = JobKey(f"sync.contact:{status}_{number}")
    since = world.clock.now() - timedelta(minutes=1)
    world.store.create(make_job(**{"job_key": key, "status": status, "due_at": since, **changes}))


def oldest_age(world: InMemoryStack, **ports: Any) -> timedelta:  # noqa: ANN401  # ports by name
    return world.app(**ports).due_work_finder.oldest_age()


def test_oldest_age_is_zero_when_nothing_is_due() -> None:
    assert oldest_age(InMemoryStack()) == timedelta(0)


@pytest.mark.parametrize("status", [Status.STARTED, Status.UNKNOWN, Status.READY])
def test_oldest_age_comes_from_longest_waiting_job(world: InMemoryStack, status: Status) -> None:
    now = world.clock.now()
    add_due_job(world, 1, status, created_at=now - timedelta(hours=1))
    add_due_job(world, 2, status, created_at=now - timedelta(hours=2))
    assert oldest_age(world) == timedelta(hours=2)


def test_reopened_job_ages_from_its_reopening(world: InMemoryStack) -> None:
    now = world.clock.now()
    add_due_job(world, 1, created_at=now - timedelta(days=3), age_from=now - timedelta(days=1))
    assert oldest_age(world) == timedelta(days=1)


def test_oldest_age_excludes_ended_and_needs_review_jobs(world: InMemoryStack) -> None:
    long_ago = world.clock.now() - timedelta(days=9)
    for status in (Status.FINISHED, Status.FAILED, Status.NEEDS_REVIEW):
        add_due_job(world, 1, status, created_at=long_ago)
    started = make_job(job_key=JobKey("sync.push:1"), due_at=long_ago, created_at=long_ago)
    world.store.create(started)
    # The ending write did not move its entry in the index.
    world.store.swap(started, replace(started, status=Status.FINISHED, version=2))

    assert oldest_age(world) == timedelta(0)


def test_oldest_age_reads_bounded_number_of_rows(world: InMemoryStack) -> None:
    hour_ago = world.clock.now() - timedelta(hours=1)
    for one in range(2 * MAX_AGE_READS):
        add_due_job(world, one, created_at=hour_ago)
    counting = _CountingStore(world.store)

    assert oldest_age(world, store=counting) == timedelta(hours=1)
    assert counting.reads == MAX_AGE_READS


@pytest.mark.parametrize("store", ["broken", "empty"])
def test_oldest_age_uses_due_time_when_row_is_unreadable(world: InMemoryStack, store: str) -> None:
    add_due_job(world, 1)
    found: Any = _BrokenStore() if store == "broken" else InspectableStore()
    expected = timedelta(minutes=1) if store == "broken" else timedelta(0)
    assert oldest_age(world, store=found) == expected


class _CountingStore:
    def __init__(self, store: InspectableStore) -> None:
        self.store = store
        self.reads = 0

    def get(self, key: JobKey) -> object:
        self.reads += 1
        return self.store.get(key)


class _BrokenStore:
    def get(self, key: JobKey) -> None:
        raise UnavailableError(f"DynamoDB gave no answer for {key}")
