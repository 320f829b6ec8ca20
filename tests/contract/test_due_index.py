"""The index of due rows: what is asked stands apart from what is sent and published, everywhere."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from oncely.domain.due import DUE_SHARDS, Action, due_shard
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.ports import Due, Written
from tests.contract.places import Place
from tests.contract.samples import KEY, a_ready_job, at, finished, moved, started

FAR = at(10_000)
EVERYWHERE = dict.fromkeys(Action, ())


def due(
    place: Place, action: Action, *, since: datetime | None = None, until: datetime = FAR
) -> list[Due]:
    shards = range(place.due.shards)
    found = [one for n in shards for one in place.due.due(action, n, since=since, until=until)]
    return sorted(found, key=lambda one: one.due_at)


def partitions(place: Place) -> dict[Action, tuple[JobKey, ...]]:
    return {action: tuple(one.job_key for one in due(place, action)) for action in Action}


def swap(place: Place, before: Job, after: Job) -> Job:
    result = place.store.swap(before, after)
    assert isinstance(result, Written)
    return result.job


def test_enqueued_row_is_due_for_send(place: Place) -> None:
    place.store.create(a_ready_job())

    assert partitions(place) == {**EVERYWHERE, Action.SEND: (KEY,)}


def test_claimed_row_is_due_for_lookup_when_lease_expires(place: Place) -> None:
    place.store.create(a_ready_job())

    job = started(place.store)

    assert partitions(place) == {**EVERYWHERE, Action.ASK: (KEY,)}
    assert due(place, Action.ASK) == [Due(job_key=KEY, due_at=job.lease_until or FAR)]


@pytest.mark.parametrize(
    ("event", "action"),
    [
        (Event.LOSE, Action.ASK),
        (Event.RELEASE, Action.SEND),
        (Event.CONFIRM, Action.PUBLISH),
        (Event.REFUSE, Action.PUBLISH),
        (Event.ESCALATE, Action.PUBLISH),
    ],
)
def test_due_time_change_moves_row_to_matching_partition(
    event: Event, action: Action, place: Place
) -> None:
    job = started(place.store)

    swap(place, job, moved(job, event, due_at=at(300)))

    assert partitions(place) == {**EVERYWHERE, action: (KEY,)}


def test_unchanged_due_time_keeps_partition_after_job_ends(place: Place) -> None:
    job = started(place.store)

    ended = swap(place, job, moved(job, Event.CONFIRM))

    assert partitions(place) == {**EVERYWHERE, Action.ASK: (KEY,)}
    later = replace(ended, version=ended.version + 1, due_at=at(500))
    swap(place, ended, later)
    assert partitions(place) == {**EVERYWHERE, Action.PUBLISH: (KEY,)}


def test_row_without_due_time_is_not_indexed(place: Place) -> None:
    before = started(place.store)
    job = swap(place, before, finished(before))

    swap(place, job, replace(job, version=job.version + 1, due_at=None))

    assert partitions(place) == EVERYWHERE


def test_rows_in_time_range_are_listed_longest_due_first(place: Place) -> None:
    keys = [JobKey(f"payment.charge:order_{number}") for number in range(20)]
    for number, key in enumerate(keys):
        place.store.create(a_ready_job(key, due_at=at(100 - number)))

    found = due(place, Action.SEND, since=at(85), until=at(95))

    assert [one.job_key for one in found] == keys[5:16][::-1]
    assert found[0].due_at == at(85)
    assert due(place, Action.SEND, until=at(81) - timedelta(microseconds=1)) == []


def test_rows_are_found_in_their_shard(place: Place) -> None:
    assert place.due.shards == DUE_SHARDS
    for number in range(16):
        key = JobKey(f"payment.charge:order_{number}")
        place.store.create(a_ready_job(key))

        found = place.due.due(Action.SEND, due_shard(key, DUE_SHARDS), since=None, until=FAR)

        assert key in [one.job_key for one in found]


def test_sweep_leases_are_not_due(place: Place) -> None:
    place.leases.take(0, holder="one", now=at(0), until=at(60))

    assert partitions(place) == EVERYWHERE
    assert list(place.finder.attention(tuple(Status))) == []
