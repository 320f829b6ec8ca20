"""Rows that none of our functions wrote, on every engine: replaced whole, or not at all."""

from dataclasses import replace
from typing import Any, Final

import pytest

from oncely.core.errors import NotConfiguredError, UnreadableRowError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.row_items import Attributes, serialize_job
from oncely.core.store import (
    AlreadyExists,
    Claimed,
    ClaimFailed,
    Created,
    ForgedRow,
    JobStore,
    PrerequisiteNotMet,
)
from oncely.testing.memory_aws.attribute_values import attributes_size
from oncely.testing.memory_aws.dynamodb import MAX_ITEM_BYTES
from tests.conformance.samples import (
    KEY,
    RESUBMITTED_KEY,
    add_note,
    claim_job,
    fail_job,
    make_claim,
    make_ready_job,
    time_at,
)
from tests.conformance.store_fixtures import StoreFixture
from tests.support.dynamo import DynamoFixture
from tests.support.engines import COMPLETE_ENGINES, EngineKind
from tests.support.fault_injecting_client import FaultInjector, ServiceError

STATUSES: Final = [status for status in Status if status is not Status.READY]
# Only our functions write these.
MARKS: Final[list[dict[str, Any]]] = [
    {"result": {}},
    {"last_error": ""},
    {"deployment": "d1"},
    {"erasure_requested_at": time_at(0)},
]
OURS: Final = [*MARKS, {"fence": 1}]
NEW: Final = make_ready_job(created_at=time_at(5), owner="ours")


def forge(store: JobStore, status: Status = Status.UNKNOWN, **changes: Any) -> ForgedRow:  # noqa: ANN401  # fields of a job
    kept = {"provider_ref": "pi_666", "key_number": 9, "run_at": time_at(9e6), "owner": "theirs"}
    row = make_ready_job(status=status, version=70, **{**kept, **changes})
    assert store.create(row) == Created(row)
    result = store.create(NEW)
    assert isinstance(result, ForgedRow)
    assert store.get(KEY) == row
    return result


@pytest.mark.parametrize("status", STATUSES)
def test_forged_row_is_replaced_whole(store: JobStore, status: Status) -> None:
    seen = forge(store, status)

    assert store.claim(make_claim()) == seen == ForgedRow(status, seen={})
    assert store.create(NEW, replacing=seen) == Created(NEW)

    assert store.get(KEY) == NEW
    assert isinstance(store.claim(make_claim()), Claimed)


@pytest.mark.parametrize("ours", OURS, ids=lambda ours: next(iter(ours)))
@pytest.mark.parametrize("status", STATUSES)
def test_row_with_our_mark_is_not_forged(
    store: JobStore, status: Status, ours: dict[str, Any]
) -> None:
    row = make_ready_job(status=status, **ours)
    store.create(row)

    assert store.claim(make_claim(fingerprint=None)) == ClaimFailed(row)
    assert store.create(NEW) == AlreadyExists(row)


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: next(iter(mark)))
def test_row_that_was_marked_since_is_not_replaced(store: JobStore, mark: dict[str, Any]) -> None:
    seen = forge(store)
    row = store.get(KEY)
    assert row is not None
    marked = JobRow(**{**vars(add_note(row)), **mark, "version": row.version})
    store.swap(row, marked)

    assert store.create(NEW, replacing=seen) == AlreadyExists(marked)
    assert store.get(KEY) == marked


def test_row_that_was_claimed_since_is_not_replaced(store: JobStore) -> None:
    seen = forge(store)
    store.create(NEW, replacing=seen)
    claimed = claim_job(store)

    assert store.create(NEW, replacing=seen) == AlreadyExists(claimed)
    assert store.get(KEY) == claimed


def test_second_replacement_finds_first(store: JobStore) -> None:
    seen = forge(store)
    other = make_ready_job(created_at=time_at(6), owner="another worker")

    assert store.create(NEW, replacing=seen) == Created(NEW)
    assert store.create(NEW, replacing=seen) == Created(NEW), "the first response was lost"
    assert store.create(other, replacing=seen) == AlreadyExists(NEW)


@pytest.mark.parametrize("status", Status)
def test_unreadable_row_without_mark_is_forged(db: StoreFixture, status: Status) -> None:
    db.store.create(make_ready_job(status=status))
    db.corrupt_row(KEY)

    seen = db.store.claim(make_claim())

    assert seen == ForgedRow("unreadable", seen={})
    assert isinstance(seen, ForgedRow)
    assert db.store.create(NEW, replacing=seen) == Created(NEW)
    assert db.store.get(KEY) == NEW


@pytest.mark.parametrize("ours", OURS, ids=lambda ours: next(iter(ours)))
def test_unreadable_row_with_mark_is_not_replaced(db: StoreFixture, ours: dict[str, Any]) -> None:
    db.store.create(make_ready_job(status=Status.UNKNOWN, **ours))
    db.corrupt_row(KEY)

    for write in (lambda: db.store.claim(make_claim()), lambda: db.store.create(NEW)):
        with pytest.raises(UnreadableRowError):
            write()


def test_forged_failure_is_no_prerequisite(store: JobStore) -> None:
    forge(store, Status.FAILED)
    row = store.get(KEY)

    claim = make_claim(job_key=RESUBMITTED_KEY, requires_failed=KEY)

    assert store.claim(claim) == PrerequisiteNotMet(row)
    assert store.get(RESUBMITTED_KEY) is None


def test_forged_resubmission_is_replaced(store: JobStore) -> None:
    first = claim_job(store)
    store.swap(first, fail_job(first))
    store.create(make_ready_job(RESUBMITTED_KEY, status=Status.FINISHED))
    claim = make_claim(job_key=RESUBMITTED_KEY, requires_failed=KEY)

    seen = store.claim(claim)

    assert isinstance(seen, ForgedRow)
    store.create(make_ready_job(RESUBMITTED_KEY, owner="ours"), replacing=seen)
    assert isinstance(store.claim(replace(claim, owner="owner-2")), Claimed)


INSERTABLE: Final[dict[str, Attributes]] = {
    "created_at": {"S": "yesterday"},
    "evidence": {"S": "[[]]"},
    "job_type": {"N": "1"},
    "message": {"S": "{"},
    "owner": {"N": "7"},
    "run_at": {"S": "1999"},
    "status": {"S": "paid"},
    "updated_at": {"N": "1"},
    "version": {"S": "many"},
}


FULL: Final = [
    ("UpdateItem", ServiceError("ValidationException"), None),
    ("TransactWriteItems", ServiceError("ValidationException"), KEY),
    (
        "TransactWriteItems",
        ServiceError("TransactionCanceledException", reasons=["None", "ValidationError"]),
        KEY,
    ),
]


# moto performs a request before the test can replace its response.
@pytest.mark.parametrize("dynamo", [EngineKind.MINISTACK], indirect=True)
@pytest.mark.parametrize(("operation", "error", "requires"), FULL)
@pytest.mark.parametrize("is_ours", [False, True])
def test_full_row_without_mark_is_forged(
    dynamo: DynamoFixture,
    operation: str,
    error: ServiceError,
    requires: JobKey | None,
    *,
    is_ours: bool,
) -> None:
    """A producer may insert a row with no room left for a claim, whichever error says so."""
    store = dynamo.store()
    store.create(make_ready_job(RESUBMITTED_KEY, **({"fence": 1} if is_ours else {})))
    FaultInjector(dynamo.client).inject(operation, error)
    claim = make_claim(job_key=RESUBMITTED_KEY, requires_failed=requires)

    if not is_ours:
        assert store.claim(claim) == ForgedRow("unreadable", seen={})
    elif error.reasons:
        assert store.claim(claim) == PrerequisiteNotMet(None)
    else:
        with pytest.raises(NotConfiguredError):
            store.claim(claim)


# moto does not refuse an update that makes a row too large.
@pytest.mark.parametrize("dynamo", COMPLETE_ENGINES, indirect=True)
@pytest.mark.parametrize("requires", [None, KEY], ids=["first", "resubmitted"])
def test_row_without_room_for_claim_is_replaced(
    dynamo: DynamoFixture, requires: JobKey | None
) -> None:
    store = dynamo.store()
    first = claim_job(store)
    store.swap(first, fail_job(first))
    job = make_ready_job(RESUBMITTED_KEY, owner="theirs")
    row = serialize_job(job)
    free = MAX_ITEM_BYTES - attributes_size(row) - len("filling") - 50
    filled = {**row, "filling": {"S": "x" * free}}
    dynamo.admin.put_item(TableName=dynamo.jobs_table, Item=filled)
    claim = make_claim(job_key=RESUBMITTED_KEY, requires_failed=requires)

    forged = store.claim(claim)

    assert isinstance(forged, ForgedRow)
    assert dynamo.row(RESUBMITTED_KEY) == filled
    store.create(replace(job, owner="ours"), replacing=forged)
    assert isinstance(store.claim(claim), Claimed)


@pytest.mark.parametrize("requires", [None, KEY], ids=["first", "resubmitted"])
@pytest.mark.parametrize("name", INSERTABLE)
def test_ready_row_with_garbage_does_not_block_job(
    dynamo: DynamoFixture, name: str, requires: JobKey | None
) -> None:
    """A producer chooses the values. Some are found only when the claim is written."""
    store = dynamo.store()
    first = claim_job(store)
    store.swap(first, fail_job(first))
    key = RESUBMITTED_KEY
    row = {**serialize_job(make_ready_job(key, owner="theirs")), name: INSERTABLE[name]}
    dynamo.admin.put_item(TableName=dynamo.jobs_table, Item=row)

    result = store.claim(make_claim(job_key=key, requires_failed=requires))
    if isinstance(result, ForgedRow):
        store.create(make_ready_job(key, owner="ours"), replacing=result)
        result = store.claim(make_claim(job_key=key, requires_failed=requires))

    assert isinstance(result, Claimed)
    assert store.get(key) == result.job
