"""Ending a job with its business writes, on every engine: all of them, or none."""

from dataclasses import replace

import pytest

from oncely.core.effect_outcomes import Precondition
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.store import (
    BusinessWriteConflict,
    Swapped,
    SwapResult,
    VersionConflict,
)
from tests.conformance.samples import (
    KEY,
    ORDER_KEY,
    PAID_ORDER,
    UNPAID_ORDER,
    apply_event,
    claim_job,
    fail_job,
    finish_job,
    make_ready_job,
    paid_order_write,
)
from tests.conformance.store_fixtures import StoreFixture
from tests.support.dynamo import DynamoFixture


def pay(db: StoreFixture, before: JobRow, **changes: object) -> SwapResult:
    write = paid_order_write(**changes)
    return db.store.swap(before, finish_job(before, seconds=3), business_writes=[write])


def order(db: StoreFixture) -> object:
    return db.rows.get("orders", ORDER_KEY)


def claim_unpaid(db: StoreFixture) -> JobRow:
    db.rows.put("orders", ORDER_KEY, UNPAID_ORDER)
    return claim_job(db.store)


def test_job_and_order_are_written_together(db: StoreFixture) -> None:
    before = claim_unpaid(db)
    after = finish_job(before, seconds=3)
    assert pay(db, before) == Swapped(after)
    assert (db.store.get(KEY), order(db)) == (after, PAID_ORDER)


@pytest.mark.parametrize(
    "stored",
    [
        {**ORDER_KEY, **UNPAID_ORDER, "status": "cancelled"},
        {**ORDER_KEY, **UNPAID_ORDER, "amount": 1251},
        {**ORDER_KEY, "amount": 1250},
        None,
    ],
    ids=["other status", "other amount", "no status", "no order"],
)
def test_other_order_changes_no_row(db: StoreFixture, stored: dict[str, object] | None) -> None:
    if stored is not None:
        db.rows.put("orders", ORDER_KEY, stored)
    before = claim_job(db.store)

    result = pay(db, before)
    assert isinstance(result, BusinessWriteConflict)
    assert "orders 18452" in result.reason
    assert (db.store.get(KEY), order(db)) == (before, stored)


def test_business_write_creates_row_when_allowed(db: StoreFixture) -> None:
    result = pay(db, claim_job(db.store), may_create=True, preconditions=(), remove=())
    assert isinstance(result, Swapped)
    assert order(db) == {**ORDER_KEY, "status": "paid", "charge_id": "ch_1"}


def test_business_write_may_only_remove_attributes(db: StoreFixture) -> None:
    assert isinstance(pay(db, claim_unpaid(db), set={}, preconditions=()), Swapped)
    assert order(db) == {**ORDER_KEY, "status": "payment_pending", "amount": 1250}


def test_one_failed_business_write_stops_both(db: StoreFixture) -> None:
    before = claim_unpaid(db)
    writes = [paid_order_write(), paid_order_write(key={"order_id": "99"})]

    result = db.store.swap(before, finish_job(before), business_writes=writes)
    assert isinstance(result, BusinessWriteConflict)
    assert "orders 99" in result.reason
    assert "orders 18452" not in result.reason
    assert (order(db), db.store.get(KEY)) == ({**ORDER_KEY, **UNPAID_ORDER}, before)


def test_version_conflict_leaves_order_unchanged(db: StoreFixture) -> None:
    before = claim_unpaid(db)
    newer = apply_event(before, Event.NOTE)
    db.store.swap(before, newer)
    assert pay(db, before) == VersionConflict(newer)
    assert order(db) == {**ORDER_KEY, **UNPAID_ORDER}


@pytest.mark.parametrize("seen", [{"owner": "someone else"}, {"version": 7}])
def test_transaction_conflicts_with_other_owner(db: StoreFixture, seen: dict[str, object]) -> None:
    row = claim_unpaid(db)
    assert pay(db, replace(row, **seen)) == VersionConflict(row)  # type: ignore[arg-type]  # fields by name
    assert order(db) == {**ORDER_KEY, **UNPAID_ORDER}


def test_version_conflict_precedes_order_conflict(db: StoreFixture) -> None:
    db.rows.put("orders", ORDER_KEY, {**UNPAID_ORDER, "status": "cancelled"})
    before = claim_job(db.store)
    newer = fail_job(before)
    db.store.swap(before, newer)
    assert pay(db, before) == VersionConflict(newer)


def test_transaction_never_creates_job(db: StoreFixture) -> None:
    before = claim_unpaid(db)
    db.remove_row(KEY)
    assert pay(db, before) == VersionConflict(None)
    assert db.store.get(KEY) is None
    assert order(db) == {**ORDER_KEY, **UNPAID_ORDER}


def test_reserved_words_and_lists_are_compared_and_stored(db: StoreFixture) -> None:
    db.rows.put("orders", ORDER_KEY, {"value": "open", "size": 1.5})
    expected = (Precondition("value", ("open",)), Precondition("size", (1, 1.5)))
    change = {"value": "closed", "items": [1, 2.5, None, {"of": "us"}]}
    assert isinstance(pay(db, claim_job(db.store), set=change, preconditions=expected), Swapped)
    assert order(db) == {**ORDER_KEY, "size": 1.5, **change}


def test_repeated_end_is_one_call_and_pays_once(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    dynamo.rows().put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(store)
    after = finish_job(before)
    dynamo.calls.reset()

    store.swap(before, after, business_writes=[paid_order_write()])
    assert dynamo.calls.attempts == ["TransactWriteItems"]
    again = store.swap(before, after, business_writes=[paid_order_write()])

    assert (again, store.get(KEY)) == (Swapped(after), after)
    assert dynamo.rows().get("orders", ORDER_KEY) == PAID_ORDER


@pytest.mark.parametrize(
    ("table", "named"),
    [("orders", "the business tables"), ("parcels", "the table 'parcels'")],
    ids=["deleted", "not configured"],
)
def test_missing_business_table_leaves_job_unchanged(
    dynamo: DynamoFixture, table: str, named: str
) -> None:
    store = dynamo.store()
    before = claim_job(store)
    dynamo.delete_table("orders")

    writes = [paid_order_write(table=table)]
    result = store.swap(before, finish_job(before), business_writes=writes)

    assert isinstance(result, BusinessWriteConflict)
    assert named in result.reason
    assert store.get(KEY) == before
    review = apply_event(before, Event.ESCALATE, seconds=3)
    assert store.swap(before, review) == Swapped(review)


def test_two_unowned_jobs_can_be_resolved(db: StoreFixture) -> None:
    for number in ("1", "2"):
        key, order = JobKey(f"payment.charge:order_{number}"), {"order_id": number}
        db.rows.put("orders", order, UNPAID_ORDER)
        review = make_ready_job(key, status=Status.NEEDS_REVIEW)
        db.store.create(review)
        resolved = apply_event(review, Event.RESOLVE_FINISHED)

        writes = [paid_order_write(key=order)]
        result = db.store.swap(review, resolved, business_writes=writes)
        assert result == Swapped(resolved)
