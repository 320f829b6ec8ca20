"""The index of due rows: lookups have other partitions than messages and publishing."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from oncely.core.due import DUE_SHARDS, DueAction, due_shard
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.store import Swapped
from oncely.reconcile.due_index import DueEntry
from tests.conformance.samples import (
    KEY,
    apply_event,
    claim_job,
    finish_job,
    make_ready_job,
    time_at,
)
from tests.conformance.store_fixtures import StoreFixture

FAR = time_at(10_000)
EVERYWHERE = dict.fromkeys(DueAction, ())


def due_entries(
    db: StoreFixture, action: DueAction, *, since: datetime | None = None, until: datetime = FAR
) -> list[DueEntry]:
    shards = range(db.due.shards)
    found = [one for n in shards for one in db.due.due(action, n, since=since, until=until)]
    return sorted(found, key=lambda one: one.due_at)


def partitions(db: StoreFixture) -> dict[DueAction, tuple[JobKey, ...]]:
    return {action: tuple(one.job_key for one in due_entries(db, action)) for action in DueAction}


def swap(db: StoreFixture, before: JobRow, after: JobRow) -> JobRow:
    result = db.store.swap(before, after)
    assert isinstance(result, Swapped)
    return result.job


def test_claimed_row_is_due_for_lookup_when_lease_expires(db: StoreFixture) -> None:
    db.store.create(make_ready_job())
    assert partitions(db) == {**EVERYWHERE, DueAction.RESEND: (KEY,)}

    job = claim_job(db.store)
    assert partitions(db) == {**EVERYWHERE, DueAction.LOOK_UP: (KEY,)}
    expected = DueEntry(job_key=KEY, due_at=job.lease_until or FAR)
    assert due_entries(db, DueAction.LOOK_UP) == [expected]


@pytest.mark.parametrize(
    ("event", "action"),
    [
        (Event.MARK_UNKNOWN, DueAction.LOOK_UP),
        (Event.RELEASE, DueAction.RESEND),
        (Event.CONFIRM, DueAction.PUBLISH),
        (Event.DECLINE, DueAction.PUBLISH),
        (Event.ESCALATE, DueAction.ALERT),
    ],
)
def test_due_time_change_moves_row(event: Event, action: DueAction, db: StoreFixture) -> None:
    job = claim_job(db.store)
    swap(db, job, apply_event(job, event, due_at=time_at(300)))
    assert partitions(db) == {**EVERYWHERE, action: (KEY,)}


def test_unchanged_due_time_keeps_partition_after_job_ends(db: StoreFixture) -> None:
    job = claim_job(db.store)
    ended = swap(db, job, apply_event(job, Event.CONFIRM))
    assert partitions(db) == {**EVERYWHERE, DueAction.LOOK_UP: (KEY,)}
    swap(db, ended, replace(ended, version=ended.version + 1, due_at=time_at(500)))
    assert partitions(db) == {**EVERYWHERE, DueAction.PUBLISH: (KEY,)}


def test_row_without_due_time_is_not_indexed(db: StoreFixture) -> None:
    before = claim_job(db.store)
    job = swap(db, before, finish_job(before))
    swap(db, job, replace(job, version=job.version + 1, due_at=None))
    assert partitions(db) == EVERYWHERE


def test_rows_in_time_range_are_listed_longest_due_first(db: StoreFixture) -> None:
    keys = [JobKey(f"payment.charge:order_{number}") for number in range(20)]
    for number, key in enumerate(keys):
        db.store.create(make_ready_job(key, due_at=time_at(100 - number)))

    found = due_entries(db, DueAction.RESEND, since=time_at(85), until=time_at(95))
    assert ([one.job_key for one in found], found[0].due_at) == (keys[5:16][::-1], time_at(85))
    assert due_entries(db, DueAction.RESEND, until=time_at(81) - timedelta(microseconds=1)) == []


def test_rows_are_found_in_their_shard(db: StoreFixture) -> None:
    assert db.due.shards == DUE_SHARDS
    for number in range(16):
        key = JobKey(f"payment.charge:order_{number}")
        db.store.create(make_ready_job(key))

        found = db.due.due(DueAction.RESEND, due_shard(key, DUE_SHARDS), since=None, until=FAR)

        assert key in [one.job_key for one in found]


def test_sweep_leases_are_not_due(db: StoreFixture) -> None:
    db.leases.acquire(0, holder="one", now=time_at(0), until=time_at(60))
    assert partitions(db) == EVERYWHERE
    assert list(db.finder.by_status(tuple(Status))) == []


def test_nothing_is_due_in_period_that_ends_before_it_begins(db: StoreFixture) -> None:
    """The next page of a sweep may begin just after its end."""
    db.store.create(make_ready_job())
    assert due_entries(db, DueAction.RESEND, since=FAR, until=FAR - timedelta(milliseconds=1)) == []
