"""Changing a job row, on every engine: only the row that was seen, and never one that is gone."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from oncely.adapters.expressions import swap_update
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.ports import JobStore, Overtaken, Written
from tests.contract.places import Place
from tests.contract.samples import (
    KEY,
    a_ready_job,
    an_owner,
    at,
    failed,
    finished,
    moved,
    started,
    with_a_note,
)
from tests.support.dynamo import Dynamo

MOVES: Mapping[str, Callable[[Job], Job]] = {
    "save the reference": lambda job: moved(job, Event.KEEP, provider_ref="pi_1"),
    "finish": finished,
    "fail": failed,
    "lose": lambda job: moved(job, Event.LOSE, lease_until=at(2), timeouts=1, last_error="?"),
    "release": lambda job: moved(
        job, Event.RELEASE, lease_until=None, first_sent_at=None, key_scope=None, attempts=0
    ),
    "note": lambda job: moved(job, Event.NOTE),
    "escalate": lambda job: moved(job, Event.ESCALATE, due_at=None),
}


@pytest.fixture(params=MOVES)
def move(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_owner_can_change_its_row(store: JobStore, move: str) -> None:
    before = started(store)
    after = MOVES[move](before)

    assert store.swap(before, after) == Written(after)
    assert store.get(KEY) == after


@pytest.mark.parametrize(
    "seen",
    [{"status": Status.READY}, {"owner": "someone else"}, {"owner": None}, {"version": 2}],
    ids=["status", "owner", "no owner", "version"],
)
def test_change_conflicts_when_status_owner_or_version_differs(
    store: JobStore, move: str, seen: dict[str, object]
) -> None:
    row = started(store)
    after = MOVES[move](row)
    not_the_row = replace(row, **seen)  # type: ignore[arg-type]  # fields by name

    assert store.swap(not_the_row, after) == Overtaken(row)
    assert store.get(KEY) == row


def test_late_owner_cannot_overwrite_newer_claim(store: JobStore) -> None:
    row = started(store)
    late = replace(row, owner=an_owner())

    assert store.swap(late, finished(late)) == Overtaken(row)
    assert store.get(KEY) == row


def test_second_change_of_same_version_conflicts(store: JobStore) -> None:
    seen = started(store)
    first = with_a_note(seen)
    store.swap(seen, first)

    assert store.swap(seen, finished(seen, seconds=4)) == Overtaken(first)
    assert store.get(KEY) == first


def test_unowned_row_can_be_changed(store: JobStore) -> None:
    ready = a_ready_job()
    store.create(ready)
    after = moved(ready, Event.RESEND, due_at=at(1800))

    assert store.swap(ready, after) == Written(after)
    assert store.get(KEY) == after


def test_unowned_change_conflicts_after_claim(store: JobStore) -> None:
    ready = a_ready_job()
    store.create(ready)
    claimed = started(store)

    assert store.swap(ready, moved(ready, Event.RESEND, due_at=at(1800))) == Overtaken(claimed)
    assert store.get(KEY) == claimed


def test_change_never_creates_row(place: Place, move: str) -> None:
    before = started(place.store)
    place.remove_row(KEY)

    assert place.store.swap(before, MOVES[move](before)) == Overtaken(None)
    assert place.store.get(KEY) is None


def test_unowned_change_never_creates_row(place: Place) -> None:
    ready = a_ready_job()
    place.store.create(ready)
    place.remove_row(KEY)

    assert place.store.swap(ready, moved(ready, Event.NOTE)) == Overtaken(None)
    assert place.store.get(KEY) is None


def test_condition_requires_existing_row() -> None:
    ready = a_ready_job()

    update = swap_update(ready, moved(ready, Event.NOTE))

    # Implied by the status today; a condition that is loosened later must not make ghosts.
    must_exist, *_ = update["ConditionExpression"].split(" AND ")
    name = must_exist.removeprefix("attribute_exists(").removesuffix(")")
    assert update["ExpressionAttributeNames"][name] == "job_key"


def test_evidence_is_written_as_given(store: JobStore) -> None:
    job = started(store)
    for seconds in range(2, 8):
        after = moved(job, Event.NOTE if seconds < 6 else Event.KEEP, seconds=seconds)
        assert store.swap(job, after) == Written(after)
        job = after

    found = store.get(KEY)

    assert found is not None
    assert found.evidence == job.evidence
    assert [(entry.event, entry.count) for entry in found.evidence] == [
        (Event.NOTE, 4),
        (Event.KEEP, 2),
    ]


def test_field_set_to_none_is_removed_from_row(dynamo: Dynamo) -> None:
    store = dynamo.store()
    before = started(store)

    store.swap(before, moved(before, Event.RELEASE, lease_until=None, key_scope=None))

    row = dynamo.row(KEY)
    assert row is not None
    assert row.keys().isdisjoint({"lease_until", "key_scope"})


def test_change_keeps_attributes_of_later_version(dynamo: Dynamo) -> None:
    store = dynamo.store()
    before = started(store)
    dynamo.add_to_row(KEY, of_a_later_version={"depth": 1})

    store.swap(before, finished(before))

    row = dynamo.row(KEY)
    assert row is not None
    assert row["of_a_later_version"] == {"M": {"depth": {"N": "1"}}}


def test_change_is_one_call_whether_it_succeeds_or_conflicts(dynamo: Dynamo) -> None:
    store = dynamo.store()
    before = started(store)
    dynamo.calls.forget()

    assert isinstance(store.swap(before, moved(before, Event.NOTE)), Written)
    assert isinstance(store.swap(before, finished(before)), Overtaken)

    assert dynamo.calls.tries == ["UpdateItem", "UpdateItem"]


def test_repeated_change_counts_as_written(dynamo: Dynamo, move: str) -> None:
    store = dynamo.store()
    before = started(store)
    after = MOVES[move](before)
    store.swap(before, after)

    assert store.swap(before, after) == Written(after)
    assert store.get(KEY) == after


def test_own_change_is_recognized_after_later_evidence(dynamo: Dynamo, move: str) -> None:
    store = dynamo.store()
    before = started(store)
    after = MOVES[move](before)
    store.swap(before, after)
    later = with_a_note(after)
    store.swap(after, later)

    assert store.swap(before, after) == Written(after)
    assert store.get(KEY) == later


def test_release_conflicts_after_claim_by_another_worker(store: JobStore) -> None:
    first = started(store)
    ready = MOVES["release"](first)
    store.swap(first, ready)
    second = started(store, now=at(9))

    assert store.swap(first, ready) == Overtaken(second)
