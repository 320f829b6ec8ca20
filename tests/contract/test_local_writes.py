"""What a business row must hold for a local write to be taken, on every engine."""

import pytest

from oncely.domain.writes import Expect, LocalWrite
from oncely.ports import LocalRefused, Written
from tests.contract.places import Place
from tests.contract.samples import KEY, ORDER_KEY, finished, started

STATUS = Expect("status", ("open", "held"))
OR_ABSENT = Expect("status", ("open",), or_absent=True)
UP_TO = Expect("version", (), or_up_to="2026-11-16T03:00:00.000Z")
UP_TO_OR_ABSENT = Expect("version", (), or_absent=True, or_up_to="2026-11-16T03:00:00.000Z")

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


def write(**changes: object) -> LocalWrite:
    return LocalWrite(
        **{"table": "orders", "key": ORDER_KEY, "set": {"status": "paid"}, **changes}  # type: ignore[arg-type]  # fields by name
    )


@pytest.mark.parametrize("case", CASES)
def test_transaction_writes_row_only_when_expectation_holds(place: Place, case: str) -> None:
    expect, row, taken = CASES[case]
    place.rows.put("orders", ORDER_KEY, row)
    before = started(place.store)

    result = place.store.swap(before, finished(before), local=[write(expect=(expect,))])

    assert type(result) is (Written if taken else LocalRefused)
    expected = {**row, "status": "paid"} if taken else row
    assert place.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **expected}


@pytest.mark.parametrize("case", CASES)
def test_update_writes_row_only_when_expectation_holds(place: Place, case: str) -> None:
    expect, row, taken = CASES[case]
    place.rows.put("orders", ORDER_KEY, row)

    assert place.rows.update(write(expect=(expect,))) is taken
    expected = {**row, "status": "paid"} if taken else row
    assert place.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, **expected}


def test_every_expectation_must_hold(place: Place) -> None:
    place.rows.put("orders", ORDER_KEY, {"status": "open", "version": "2027"})

    assert not place.rows.update(write(expect=(STATUS, UP_TO)))


def test_row_that_must_be_new_is_created_once(place: Place) -> None:
    new = write(must_be_new=True)

    assert place.rows.update(new)
    assert not place.rows.update(new)
    assert place.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, "status": "paid"}


def test_existing_row_that_must_be_new_leaves_job_unchanged(place: Place) -> None:
    place.rows.put("orders", ORDER_KEY, {"status": "open"})
    before = started(place.store)

    result = place.store.swap(before, finished(before), local=[write(must_be_new=True)])

    assert isinstance(result, LocalRefused)
    assert place.store.get(KEY) == before
    assert place.rows.get("orders", ORDER_KEY) == {**ORDER_KEY, "status": "open"}


@pytest.mark.parametrize(
    ("expect", "taken"),
    [((), True), ((OR_ABSENT,), True), ((STATUS,), False)],
    ids=["nothing expected", "absent is fine", "a value expected"],
)
def test_row_is_created_when_allowed_and_no_value_is_expected(
    place: Place, expect: tuple[Expect, ...], *, taken: bool
) -> None:
    assert place.rows.update(write(may_create=True, expect=expect)) is taken
    assert (place.rows.get("orders", ORDER_KEY) is not None) is taken


def test_missing_row_is_not_created_unless_allowed(place: Place) -> None:
    assert not place.rows.update(write(expect=(OR_ABSENT,)))
    assert place.rows.get("orders", ORDER_KEY) is None
