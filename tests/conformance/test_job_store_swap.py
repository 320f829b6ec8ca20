"""Changing a job row, on every engine: only the row that was seen, and never one that is gone."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from oncely.core.effect_outcomes import BusinessWrite
from oncely.core.job_row import EventMark, EventRecord, JobRow
from oncely.core.lifecycle import Event, Status
from oncely.core.store import JobStore, Swapped, VersionConflict, swap_update
from tests.conformance.samples import (
    KEY,
    ORDER_KEY,
    PAID_ORDER,
    UNPAID_ORDER,
    add_note,
    apply_event,
    claim_job,
    fail_job,
    finish_job,
    make_ready_job,
    new_owner,
    paid_order_write,
    time_at,
)
from tests.conformance.store_fixtures import StoreFixture
from tests.support.dynamo import DynamoFixture

SENT = EventRecord(
    at=time_at(30), provider="acme", name="Send", mark=EventMark.PROOF, fence=1, ref="mail_1"
)

MOVES: Mapping[str, Callable[[JobRow], JobRow]] = {
    "save the reference": lambda job: apply_event(job, Event.CHECKPOINT, provider_ref="pi_1"),
    "finish": finish_job,
    "fail": fail_job,
    "lose": lambda job: apply_event(
        job, Event.MARK_UNKNOWN, lease_until=time_at(2), timeouts=1, last_error="?"
    ),
    "release": lambda job: apply_event(
        job, Event.RELEASE, lease_until=None, first_sent_at=None, key_scope=None, attempts=0
    ),
    "note": lambda job: apply_event(job, Event.NOTE),
    "event": lambda job: replace(job, version=job.version + 1, provider_events=(SENT,)),
    "escalate": lambda job: apply_event(job, Event.ESCALATE, due_at=None),
}


@pytest.fixture(params=MOVES)
def event_change(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_owner_can_change_its_row(store: JobStore, event_change: str) -> None:
    before = claim_job(store)
    after = MOVES[event_change](before)
    assert store.swap(before, after) == Swapped(after)
    assert store.get(KEY) == after


@pytest.mark.parametrize(
    "seen",
    [{"status": Status.READY}, {"owner": "someone else"}, {"owner": None}, {"version": 2}],
    ids=["status", "owner", "no owner", "version"],
)
def test_change_conflicts_when_status_owner_or_version_differs(
    store: JobStore, event_change: str, seen: dict[str, object]
) -> None:
    row = claim_job(store)
    after = MOVES[event_change](row)
    not_the_row = replace(row, **seen)  # type: ignore[arg-type]  # fields by name
    assert store.swap(not_the_row, after) == VersionConflict(row)
    assert store.get(KEY) == row


def test_late_owner_cannot_overwrite_newer_claim(store: JobStore) -> None:
    row = claim_job(store)
    late = replace(row, owner=new_owner())
    assert store.swap(late, finish_job(late)) == VersionConflict(row)
    assert store.get(KEY) == row


def test_second_change_of_same_version_conflicts(store: JobStore) -> None:
    seen = claim_job(store)
    first = add_note(seen)
    store.swap(seen, first)
    assert store.swap(seen, finish_job(seen, seconds=4)) == VersionConflict(first)
    assert store.get(KEY) == first


def test_unowned_row_can_be_changed_until_claimed(store: JobStore) -> None:
    ready = make_ready_job()
    store.create(ready)
    after = apply_event(ready, Event.RESEND, due_at=time_at(1800))

    assert store.swap(ready, after) == Swapped(after)
    assert store.get(KEY) == after
    claimed = claim_job(store)
    later = apply_event(after, Event.RESEND, due_at=time_at(3600))
    assert store.swap(after, later) == VersionConflict(claimed)
    assert store.get(KEY) == claimed


def test_change_never_creates_row(db: StoreFixture, event_change: str) -> None:
    before = claim_job(db.store)
    db.remove_row(KEY)
    assert db.store.swap(before, MOVES[event_change](before)) == VersionConflict(None)
    assert db.store.get(KEY) is None


def test_unowned_change_never_creates_row(db: StoreFixture) -> None:
    ready = make_ready_job()
    db.store.create(ready)
    db.remove_row(KEY)
    assert db.store.swap(ready, apply_event(ready, Event.NOTE)) == VersionConflict(None)
    assert db.store.get(KEY) is None


def test_condition_requires_existing_row() -> None:
    ready = make_ready_job()

    update = swap_update(ready, apply_event(ready, Event.NOTE))

    # Implied by the status today; a condition that is loosened later must not make ghosts.
    must_exist, *_ = update["ConditionExpression"].split(" AND ")
    name = must_exist.removeprefix("attribute_exists(").removesuffix(")")
    assert update["ExpressionAttributeNames"][name] == "job_key"


def test_evidence_is_written_as_given(store: JobStore) -> None:
    job = claim_job(store)
    for seconds in range(2, 8):
        after = apply_event(job, Event.NOTE if seconds < 6 else Event.CHECKPOINT, seconds=seconds)
        assert store.swap(job, after) == Swapped(after)
        job = after

    found = store.get(KEY)
    assert found is not None
    assert found.evidence == job.evidence
    counts = [(entry.event, entry.count) for entry in found.evidence]
    assert counts == [(Event.NOTE, 4), (Event.CHECKPOINT, 2)]


def test_release_removes_fields_and_keeps_those_of_later_version(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    before = claim_job(store)
    dynamo.set_attributes(KEY, of_a_later_version={"depth": 1})

    after = apply_event(before, Event.RELEASE, lease_until=None, key_scope=None)
    store.swap(before, after)

    row = dynamo.row(KEY)
    assert row is not None
    assert row.keys().isdisjoint({"lease_until", "key_scope"})
    assert row["of_a_later_version"] == {"M": {"depth": {"N": "1"}}}


def test_change_is_one_call_whether_it_succeeds_or_conflicts(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    before = claim_job(store)
    dynamo.calls.reset()

    assert isinstance(store.swap(before, apply_event(before, Event.NOTE)), Swapped)
    assert isinstance(store.swap(before, finish_job(before)), VersionConflict)

    assert dynamo.calls.attempts == ["UpdateItem", "UpdateItem"]


def test_own_change_is_recognized_after_evidence(dynamo: DynamoFixture, event_change: str) -> None:
    store = dynamo.store()
    before = claim_job(store)
    after = MOVES[event_change](before)
    store.swap(before, after)

    assert store.swap(before, after) == Swapped(after)
    assert store.get(KEY) == after
    later = add_note(after)
    store.swap(after, later)
    assert store.swap(before, after) == Swapped(after)
    assert store.get(KEY) == later


@pytest.mark.parametrize("writes", [(), (paid_order_write(),)], ids=["alone", "transaction"])
def test_repeated_identical_change_succeeds_once(
    db: StoreFixture, writes: tuple[BusinessWrite, ...]
) -> None:
    """The SDK repeats a write whose response was lost. It is ours, and is not applied again."""
    db.rows.put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(db.store)
    after = finish_job(before)
    for _ in range(2):
        assert db.store.swap(before, after, business_writes=writes) == Swapped(after)
        assert db.store.get(KEY) == after
    assert db.rows.get("orders", ORDER_KEY) == (PAID_ORDER if writes else ORDER_KEY | UNPAID_ORDER)


def test_release_conflicts_after_claim_by_another_worker(store: JobStore) -> None:
    first = claim_job(store)
    ready = MOVES["release"](first)
    store.swap(first, ready)
    second = claim_job(store, now=time_at(9))
    assert store.swap(first, ready) == VersionConflict(second)
