"""Ending a job with its local writes, on every engine: all of them together, or none."""

from dataclasses import replace

import pytest

from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.writes import Expect
from oncely.ports import LocalRefused, Overtaken, Written
from tests.contract.places import Place
from tests.contract.samples import (
    A_PAID_ORDER,
    AN_UNPAID_ORDER,
    KEY,
    ORDER_KEY,
    a_ready_job,
    failed,
    finished,
    moved,
    order_becomes_paid,
    started,
)
from tests.support.dynamo import Dynamo


def test_job_and_order_are_written_together(place: Place) -> None:
    place.rows.put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(place.store)
    after = finished(before)

    assert place.store.swap(before, after, local=[order_becomes_paid()]) == Written(after)
    assert place.store.get(KEY) == after
    assert place.rows.get("orders", ORDER_KEY) == A_PAID_ORDER


@pytest.mark.parametrize(
    "order",
    [
        {**AN_UNPAID_ORDER, "status": "cancelled"},
        {**AN_UNPAID_ORDER, "amount": 1251},
        {"amount": 1250},
    ],
    ids=["other status", "other amount", "no status"],
)
def test_mismatched_order_leaves_job_and_order_unchanged(
    place: Place, order: dict[str, object]
) -> None:
    place.rows.put("orders", ORDER_KEY, order)
    before = started(place.store)

    result = place.store.swap(before, finished(before), local=[order_becomes_paid()])

    assert isinstance(result, LocalRefused)
    assert "orders 18452" in result.why
    assert place.store.get(KEY) == before
    assert place.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **order}


def test_missing_order_is_not_created(place: Place) -> None:
    before = started(place.store)

    result = place.store.swap(before, finished(before), local=[order_becomes_paid()])

    assert isinstance(result, LocalRefused)
    assert "orders 18452" in result.why
    assert place.store.get(KEY) == before
    assert place.rows.get("orders", ORDER_KEY) is None


def test_business_write_creates_row_when_allowed(place: Place) -> None:
    before = started(place.store)
    after = finished(before)

    write = order_becomes_paid(may_create=True, expect=(), remove=())

    assert place.store.swap(before, after, local=[write]) == Written(after)
    assert place.rows.get("orders", ORDER_KEY) == {
        **ORDER_KEY,
        "status": "paid",
        "charge_id": "ch_1",
    }


def test_business_write_may_only_remove_attributes(place: Place) -> None:
    place.rows.put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(place.store)

    write = order_becomes_paid(set={}, expect=())

    assert isinstance(place.store.swap(before, finished(before), local=[write]), Written)
    assert place.rows.get("orders", ORDER_KEY) == {
        **ORDER_KEY,
        "status": "payment_pending",
        "amount": 1250,
    }


def test_one_failed_business_write_stops_both(place: Place) -> None:
    place.rows.put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(place.store)
    missing = order_becomes_paid(key={"order_id": "99"})

    result = place.store.swap(before, finished(before), local=[order_becomes_paid(), missing])

    assert isinstance(result, LocalRefused)
    assert "orders 99" in result.why
    assert "orders 18452" not in result.why
    assert place.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **AN_UNPAID_ORDER}
    assert place.store.get(KEY) == before


def test_version_conflict_leaves_order_unchanged(place: Place) -> None:
    place.rows.put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(place.store)
    newer = moved(before, Event.NOTE)
    place.store.swap(before, newer)

    result = place.store.swap(before, finished(before, seconds=3), local=[order_becomes_paid()])

    assert result == Overtaken(newer)
    assert place.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **AN_UNPAID_ORDER}


@pytest.mark.parametrize(
    "seen", [{"owner": "someone else"}, {"version": 7}], ids=["owner", "version"]
)
def test_transaction_conflicts_when_owner_or_version_differs(
    place: Place, seen: dict[str, object]
) -> None:
    place.rows.put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    row = started(place.store)
    stranger = replace(row, **seen)  # type: ignore[arg-type]  # fields by name

    result = place.store.swap(stranger, finished(stranger), local=[order_becomes_paid()])

    assert result == Overtaken(row)
    assert place.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **AN_UNPAID_ORDER}


def test_version_conflict_precedes_order_conflict(place: Place) -> None:
    place.rows.put("orders", ORDER_KEY, {**AN_UNPAID_ORDER, "status": "cancelled"})
    before = started(place.store)
    newer = failed(before)
    place.store.swap(before, newer)

    result = place.store.swap(before, finished(before, seconds=3), local=[order_becomes_paid()])

    assert result == Overtaken(newer)


def test_transaction_never_creates_job(place: Place) -> None:
    place.rows.put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(place.store)
    place.remove_row(KEY)

    result = place.store.swap(before, finished(before), local=[order_becomes_paid()])

    assert result == Overtaken(None)
    assert place.store.get(KEY) is None
    assert place.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **AN_UNPAID_ORDER}


def test_reserved_words_and_lists_are_compared_and_stored(place: Place) -> None:
    place.rows.put("orders", ORDER_KEY, {"value": "open", "size": 1.5})
    before = started(place.store)
    write = order_becomes_paid(
        set={"value": "closed", "items": [1, 2.5, None, {"of": "us"}]},
        expect=(Expect("value", ("open",)), Expect("size", (1, 1.5))),
    )

    assert isinstance(place.store.swap(before, finished(before), local=[write]), Written)
    assert place.rows.get("orders", ORDER_KEY) == {
        **ORDER_KEY,
        "value": "closed",
        "size": 1.5,
        "items": [1, 2.5, None, {"of": "us"}],
    }


def test_end_with_business_write_is_one_call(dynamo: Dynamo) -> None:
    store = dynamo.store()
    dynamo.rows().put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(store)
    dynamo.calls.forget()

    store.swap(before, finished(before), local=[order_becomes_paid()])

    assert dynamo.calls.tries == ["TransactWriteItems"]


def test_repeated_end_counts_as_written_and_pays_once(dynamo: Dynamo) -> None:
    store = dynamo.store()
    dynamo.rows().put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(store)
    after = finished(before)
    store.swap(before, after, local=[order_becomes_paid()])

    assert store.swap(before, after, local=[order_becomes_paid()]) == Written(after)
    assert store.get(KEY) == after
    assert dynamo.rows().get("orders", ORDER_KEY) == A_PAID_ORDER


def test_missing_business_table_leaves_job_unchanged(dynamo: Dynamo) -> None:
    store = dynamo.store()
    before = started(store)
    dynamo.admin.delete_table(TableName=dynamo.tables["orders"])

    result = store.swap(before, finished(before), local=[order_becomes_paid()])

    assert isinstance(result, LocalRefused)
    assert dynamo.tables["orders"] in result.why
    assert store.get(KEY) == before
    assert store.swap(before, moved(before, Event.ESCALATE, seconds=3)) == Written(
        moved(before, Event.ESCALATE, seconds=3)
    )


def test_two_unowned_jobs_can_be_resolved(place: Place) -> None:
    for number in ("1", "2"):
        key, order = JobKey(f"payment.charge:order_{number}"), {"order_id": number}
        place.rows.put("orders", order, AN_UNPAID_ORDER)
        review = a_ready_job(key, status=Status.NEEDS_REVIEW)
        place.store.create(review)
        ruled = moved(review, Event.RULE_FINISHED)

        result = place.store.swap(review, ruled, local=[order_becomes_paid(key=order)])

        assert result == Written(ruled)


def test_unconfigured_business_table_leaves_job_unchanged(dynamo: Dynamo) -> None:
    store = dynamo.store()
    before = started(store)
    unnamed = replace(order_becomes_paid(), table="parcels")

    result = store.swap(before, finished(before), local=[unnamed])

    assert isinstance(result, LocalRefused)
    assert "parcels" in result.why
    assert store.get(before.job_key) == before
