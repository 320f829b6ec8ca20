"""Ending a job with its local writes, on every engine: all of them together, or none."""

from dataclasses import replace

import pytest

from oncely.domain.effect_outcomes import Precondition
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.ports import BusinessWriteConflict, Swapped, VersionConflict
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


def test_job_and_order_are_written_together(store_fixture: StoreFixture) -> None:
    store_fixture.rows.put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(store_fixture.store)
    after = finish_job(before)

    assert store_fixture.store.compare_and_swap(
        before, after, business_writes=[paid_order_write()]
    ) == Swapped(after)
    assert store_fixture.store.get(KEY) == after
    assert store_fixture.rows.get("orders", ORDER_KEY) == PAID_ORDER


@pytest.mark.parametrize(
    "order",
    [
        {**UNPAID_ORDER, "status": "cancelled"},
        {**UNPAID_ORDER, "amount": 1251},
        {"amount": 1250},
    ],
    ids=["other status", "other amount", "no status"],
)
def test_mismatched_order_leaves_job_and_order_unchanged(
    store_fixture: StoreFixture, order: dict[str, object]
) -> None:
    store_fixture.rows.put("orders", ORDER_KEY, order)
    before = claim_job(store_fixture.store)

    result = store_fixture.store.compare_and_swap(
        before, finish_job(before), business_writes=[paid_order_write()]
    )

    assert isinstance(result, BusinessWriteConflict)
    assert "orders 18452" in result.reason
    assert store_fixture.store.get(KEY) == before
    assert store_fixture.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **order}


def test_missing_order_is_not_created(store_fixture: StoreFixture) -> None:
    before = claim_job(store_fixture.store)

    result = store_fixture.store.compare_and_swap(
        before, finish_job(before), business_writes=[paid_order_write()]
    )

    assert isinstance(result, BusinessWriteConflict)
    assert "orders 18452" in result.reason
    assert store_fixture.store.get(KEY) == before
    assert store_fixture.rows.get("orders", ORDER_KEY) is None


def test_business_write_creates_row_when_allowed(store_fixture: StoreFixture) -> None:
    before = claim_job(store_fixture.store)
    after = finish_job(before)

    write = paid_order_write(may_create=True, preconditions=(), remove=())

    assert store_fixture.store.compare_and_swap(before, after, business_writes=[write]) == Swapped(
        after
    )
    assert store_fixture.rows.get("orders", ORDER_KEY) == {
        **ORDER_KEY,
        "status": "paid",
        "charge_id": "ch_1",
    }


def test_business_write_may_only_remove_attributes(store_fixture: StoreFixture) -> None:
    store_fixture.rows.put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(store_fixture.store)

    write = paid_order_write(set={}, preconditions=())

    assert isinstance(
        store_fixture.store.compare_and_swap(before, finish_job(before), business_writes=[write]),
        Swapped,
    )
    assert store_fixture.rows.get("orders", ORDER_KEY) == {
        **ORDER_KEY,
        "status": "payment_pending",
        "amount": 1250,
    }


def test_one_failed_business_write_stops_both(store_fixture: StoreFixture) -> None:
    store_fixture.rows.put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(store_fixture.store)
    missing = paid_order_write(key={"order_id": "99"})

    result = store_fixture.store.compare_and_swap(
        before, finish_job(before), business_writes=[paid_order_write(), missing]
    )

    assert isinstance(result, BusinessWriteConflict)
    assert "orders 99" in result.reason
    assert "orders 18452" not in result.reason
    assert store_fixture.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **UNPAID_ORDER}
    assert store_fixture.store.get(KEY) == before


def test_version_conflict_leaves_order_unchanged(store_fixture: StoreFixture) -> None:
    store_fixture.rows.put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(store_fixture.store)
    newer = apply_event(before, Event.NOTE)
    store_fixture.store.compare_and_swap(before, newer)

    result = store_fixture.store.compare_and_swap(
        before, finish_job(before, seconds=3), business_writes=[paid_order_write()]
    )

    assert result == VersionConflict(newer)
    assert store_fixture.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **UNPAID_ORDER}


@pytest.mark.parametrize(
    "seen", [{"owner": "someone else"}, {"version": 7}], ids=["owner", "version"]
)
def test_transaction_conflicts_when_owner_or_version_differs(
    store_fixture: StoreFixture, seen: dict[str, object]
) -> None:
    store_fixture.rows.put("orders", ORDER_KEY, UNPAID_ORDER)
    row = claim_job(store_fixture.store)
    stranger = replace(row, **seen)  # type: ignore[arg-type]  # fields by name

    result = store_fixture.store.compare_and_swap(
        stranger, finish_job(stranger), business_writes=[paid_order_write()]
    )

    assert result == VersionConflict(row)
    assert store_fixture.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **UNPAID_ORDER}


def test_version_conflict_precedes_order_conflict(store_fixture: StoreFixture) -> None:
    store_fixture.rows.put("orders", ORDER_KEY, {**UNPAID_ORDER, "status": "cancelled"})
    before = claim_job(store_fixture.store)
    newer = fail_job(before)
    store_fixture.store.compare_and_swap(before, newer)

    result = store_fixture.store.compare_and_swap(
        before, finish_job(before, seconds=3), business_writes=[paid_order_write()]
    )

    assert result == VersionConflict(newer)


def test_transaction_never_creates_job(store_fixture: StoreFixture) -> None:
    store_fixture.rows.put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(store_fixture.store)
    store_fixture.remove_row(KEY)

    result = store_fixture.store.compare_and_swap(
        before, finish_job(before), business_writes=[paid_order_write()]
    )

    assert result == VersionConflict(None)
    assert store_fixture.store.get(KEY) is None
    assert store_fixture.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **UNPAID_ORDER}


def test_reserved_words_and_lists_are_compared_and_stored(store_fixture: StoreFixture) -> None:
    store_fixture.rows.put("orders", ORDER_KEY, {"value": "open", "size": 1.5})
    before = claim_job(store_fixture.store)
    write = paid_order_write(
        set={"value": "closed", "items": [1, 2.5, None, {"of": "us"}]},
        preconditions=(Precondition("value", ("open",)), Precondition("size", (1, 1.5))),
    )

    assert isinstance(
        store_fixture.store.compare_and_swap(before, finish_job(before), business_writes=[write]),
        Swapped,
    )
    assert store_fixture.rows.get("orders", ORDER_KEY) == {
        **ORDER_KEY,
        "value": "closed",
        "size": 1.5,
        "items": [1, 2.5, None, {"of": "us"}],
    }


def test_end_with_business_write_is_one_call(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    dynamo.rows().put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(store)
    dynamo.calls.reset()

    store.compare_and_swap(before, finish_job(before), business_writes=[paid_order_write()])

    assert dynamo.calls.attempts == ["TransactWriteItems"]


def test_repeated_end_counts_as_written_and_pays_once(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    dynamo.rows().put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(store)
    after = finish_job(before)
    store.compare_and_swap(before, after, business_writes=[paid_order_write()])

    assert store.compare_and_swap(before, after, business_writes=[paid_order_write()]) == Swapped(
        after
    )
    assert store.get(KEY) == after
    assert dynamo.rows().get("orders", ORDER_KEY) == PAID_ORDER


def test_missing_business_table_leaves_job_unchanged(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    before = claim_job(store)
    dynamo.admin.delete_table(TableName=dynamo.tables["orders"])

    result = store.compare_and_swap(
        before, finish_job(before), business_writes=[paid_order_write()]
    )

    assert isinstance(result, BusinessWriteConflict)
    assert dynamo.tables["orders"] in result.reason
    assert store.get(KEY) == before
    assert store.compare_and_swap(
        before, apply_event(before, Event.ESCALATE, seconds=3)
    ) == Swapped(apply_event(before, Event.ESCALATE, seconds=3))


def test_two_unowned_jobs_can_be_resolved(store_fixture: StoreFixture) -> None:
    for number in ("1", "2"):
        key, order = JobKey(f"payment.charge:order_{number}"), {"order_id": number}
        store_fixture.rows.put("orders", order, UNPAID_ORDER)
        review = make_ready_job(key, status=Status.NEEDS_REVIEW)
        store_fixture.store.create(review)
        ruled = apply_event(review, Event.RESOLVE_FINISHED)

        result = store_fixture.store.compare_and_swap(
            review, ruled, business_writes=[paid_order_write(key=order)]
        )

        assert result == Swapped(ruled)


def test_unconfigured_business_table_leaves_job_unchanged(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    before = claim_job(store)
    unnamed = replace(paid_order_write(), table="parcels")

    result = store.compare_and_swap(before, finish_job(before), business_writes=[unnamed])

    assert isinstance(result, BusinessWriteConflict)
    assert "parcels" in result.reason
    assert store.get(before.job_key) == before
