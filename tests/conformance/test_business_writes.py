"""Preconditions of business writes, on every engine."""

import pytest

from oncely.core.effect_outcomes import BusinessWrite, Precondition
from oncely.core.store import BusinessWriteConflict, Swapped
from tests.conformance.samples import KEY, ORDER_KEY, claim_job, finish_job
from tests.conformance.store_fixtures import StoreFixture
from tests.support.engines import EngineKind

STATUS = Precondition("status", ("open", "held"))
OR_ABSENT = Precondition("status", ("open",), or_absent=True)
UP_TO = Precondition("version", (), or_at_most="2026-11-16T03:00:00.000Z")
UP_TO_OR_ABSENT = Precondition("version", (), or_absent=True, or_at_most="2026-11-16T03:00:00.000Z")

CASES = {
    "one of the values": (STATUS, {"status": "held"}, True),
    "none of the values": (STATUS, {"status": "cancelled"}, False),
    "no value at all": (STATUS, {"other": "attribute"}, False),
    "absent, as it may be": (OR_ABSENT, {"other": "attribute"}, True),
    "present and wrong": (OR_ABSENT, {"status": "cancelled"}, False),
    "sooner": (UP_TO, {"version": "2026-11-16T02:59:59.999999Z"}, True),
    "the same moment": (UP_TO, {"version": "2026-11-16T03:00:00.000Z"}, True),
    "later": (UP_TO, {"version": "2026-11-16T03:00:00.001Z"}, False),
    "no moment at all": (UP_TO, {"other": "attribute"}, False),
    "no moment, as it may be": (UP_TO_OR_ABSENT, {"other": "attribute"}, True),
}


def write(**changes: object) -> BusinessWrite:
    return BusinessWrite(
        **{"table": "orders", "key": ORDER_KEY, "set": {"status": "paid"}, **changes}  # type: ignore[arg-type]  # fields by name
    )


def update(db: StoreFixture, change: BusinessWrite) -> bool:
    """Write it. A dry run reads the row and must find the same."""
    expected = change.applies_to(db.rows.get("orders", ORDER_KEY))
    taken = db.rows.update(change)
    assert taken is expected
    return taken


@pytest.mark.parametrize("in_transaction", [True, False], ids=["transaction", "update"])
@pytest.mark.parametrize(("expect", "row", "taken"), CASES.values(), ids=list(CASES))
def test_row_is_written_only_when_expectation_holds(
    db: StoreFixture,
    expect: Precondition,
    row: dict[str, str],
    *,
    taken: bool,
    in_transaction: bool,
) -> None:
    db.rows.put("orders", ORDER_KEY, row)
    change = write(preconditions=(expect,))
    if in_transaction:
        before = claim_job(db.store)
        result = db.store.swap(before, finish_job(before), business_writes=[change])
        assert type(result) is (Swapped if taken else BusinessWriteConflict)
    else:
        assert update(db, change) is taken

    expected = {**row, "status": "paid"} if taken else row
    assert db.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **expected}


# moto compares no number with a text.
@pytest.mark.parametrize("db", [EngineKind.MEMORY, EngineKind.MINISTACK], indirect=True)
def test_number_is_at_most_no_text(db: StoreFixture) -> None:
    db.rows.put("orders", ORDER_KEY, {"version": 1})
    assert not update(db, write(preconditions=(UP_TO,)))


def test_every_expectation_must_hold(db: StoreFixture) -> None:
    db.rows.put("orders", ORDER_KEY, {"status": "open", "version": "2027"})
    assert not update(db, write(preconditions=(STATUS, UP_TO)))


def test_row_that_must_be_new_is_created_once(db: StoreFixture) -> None:
    new = write(must_be_new=True)
    assert update(db, new)
    assert not update(db, new)
    assert db.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, "status": "paid"}


def test_existing_row_that_must_be_new_leaves_job_unchanged(db: StoreFixture) -> None:
    db.rows.put("orders", ORDER_KEY, {"status": "open"})
    before = claim_job(db.store)

    writes = [write(must_be_new=True)]
    result = db.store.swap(before, finish_job(before), business_writes=writes)

    assert isinstance(result, BusinessWriteConflict)
    assert db.store.get(KEY) == before
    assert db.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, "status": "open"}


@pytest.mark.parametrize(
    ("expect", "taken"),
    [((), True), ((OR_ABSENT,), True), ((STATUS,), False)],
    ids=["nothing expected", "absent is fine", "a value expected"],
)
def test_row_is_created_when_allowed_and_no_value_is_expected(
    db: StoreFixture, expect: tuple[Precondition, ...], *, taken: bool
) -> None:
    assert update(db, write(may_create=True, preconditions=expect)) is taken
    assert (db.rows.get("orders", ORDER_KEY) is not None) is taken


def test_missing_row_is_not_created_unless_allowed(db: StoreFixture) -> None:
    assert not update(db, write(preconditions=(OR_ABSENT,)))
    assert db.rows.get("orders", ORDER_KEY) is None
