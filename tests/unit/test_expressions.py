"""DynamoDB expressions: every name is a placeholder, so no value can break one."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.core.effect_outcomes import BusinessWrite, Precondition
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, Status
from oncely.core.row_items import serialize_field
from oncely.core.store import (
    Expression,
    business_update,
    claim_update,
    swap_update,
)
from tests.unit.samples import NOW, make_claim, make_job

WORDS = re.compile(r"[#:]?\w+")
KEYWORDS = {"SET", "REMOVE", "AND", "OR", "IN", "if_not_exists"}
KEYWORDS |= {"attribute_exists", "attribute_not_exists"}
# Reserved words, and names that would end or change an expression.
RESERVED = ["status", "size", "a.b", "a b", "#n0", ":v0", "x = y", "IN", "-"]
ODD = st.sampled_from(RESERVED) | st.text(min_size=1)
# DynamoDB numbers have at most 38 digits.
PLAIN = st.text() | st.integers(-(10**38) + 1, 10**38 - 1) | st.booleans() | st.none()
BEFORE = make_job()


def assert_only_placeholders(update: dict[str, Any]) -> None:
    """DynamoDB rejects a bare reserved word, an unknown placeholder, and an unused one."""
    names, values = update["ExpressionAttributeNames"], update["ExpressionAttributeValues"]
    text = f"{update['UpdateExpression']} {update.get('ConditionExpression', '')}"
    assert set(WORDS.findall(text)) - KEYWORDS == {*names, *values}


@pytest.mark.parametrize("reopens", [None, make_job(status=Status.NEEDS_REVIEW)])
@pytest.mark.parametrize("keeps_message", [True, False])
@pytest.mark.parametrize("fingerprint", ["of the order", None])
@pytest.mark.parametrize("customer", ["customer_7", None])
def test_claim_uses_only_placeholders(
    fingerprint: str | None, customer: str | None, reopens: JobRow | None, *, keeps_message: bool
) -> None:
    claim = make_claim(fingerprint=fingerprint, customer_id=customer, reopens=reopens)

    update = claim_update(claim, keeps_message=keeps_message)

    assert_only_placeholders(update)
    names = update["ExpressionAttributeNames"].values()
    assert ("message" in names) is not keeps_message
    creates = "attribute_not_exists(job_key)" in _readable(update, "ConditionExpression")
    assert creates is (reopens is None and not keeps_message)


def test_swap_expects_row_as_it_was_read() -> None:
    after = BEFORE.apply(Event.CONFIRM, now=NOW, actor="worker", reason="charged", due_at=None)

    update = swap_update(BEFORE, after)

    assert_only_placeholders(update)
    expected = _readable(update, "ConditionExpression")
    assert expected.startswith("attribute_exists(job_key)")
    for name in ("status", "version", "owner"):
        assert f"{name} = {serialize_field(name, getattr(BEFORE, name))}" in expected


def test_swap_of_unowned_row_expects_no_owner() -> None:
    free = replace(BEFORE, owner=None)
    update = swap_update(free, replace(free, version=2))
    assert "attribute_not_exists(owner)" in _readable(update, "ConditionExpression")


def test_swap_sets_changed_fields_and_removes_missing_ones() -> None:
    update = swap_update(BEFORE, replace(BEFORE, version=2, due_at=None))
    assert _readable(update, "UpdateExpression") == "SET version = {'N': '2'} REMOVE due_at, due"


@given(
    key=st.dictionaries(ODD, st.text(), min_size=1, max_size=2),
    values=st.dictionaries(ODD, PLAIN, min_size=1, max_size=3),
    remove=st.lists(ODD, max_size=2),
    expect=st.lists(st.tuples(ODD, st.lists(PLAIN, min_size=1, max_size=3)), max_size=2),
    may_create=st.booleans(),
)
def test_business_write_uses_placeholders_for_any_name_and_value(
    key: dict[str, str],
    values: dict[str, str | int | bool | None],
    remove: list[str],
    expect: list[tuple[str, list[str | int | bool | None]]],
    *,
    may_create: bool,
) -> None:
    write = BusinessWrite(
        table="orders",
        key=key,
        set=values,
        remove=tuple(remove),
        preconditions=tuple(Precondition(name, tuple(one_of)) for name, one_of in expect),
        may_create=may_create,
    )

    update = business_update(write)

    assert_only_placeholders(update)
    names = {*values, *remove, *(name for name, _ in expect), *(() if may_create else key)}
    assert set(update["ExpressionAttributeNames"].values()) == names


def test_business_write_changes_only_row_with_expected_values() -> None:
    write = BusinessWrite(
        table="orders",
        key={"order_id": "18452"},
        set={"status": "paid"},
        remove=("charge_requested_at",),
        preconditions=(Precondition("status", ("payment_pending", "payment_failed")),),
    )

    update = business_update(write)

    assert update["Key"] == {"order_id": {"S": "18452"}}
    changes = "SET status = {'S': 'paid'} REMOVE charge_requested_at"
    assert _readable(update, "UpdateExpression") == changes
    expected = _readable(update, "ConditionExpression")
    assert expected.startswith("attribute_exists(order_id) AND ")
    assert "status IN ({'S': 'payment_pending'}, {'S': 'payment_failed'})" in expected


def test_repeated_name_shares_one_placeholder() -> None:
    expression = Expression()
    assert expression.name("status") == expression.name("status") != expression.name("owner")


def _readable(update: dict[str, Any], part: str) -> str:
    known = {**update["ExpressionAttributeNames"], **update["ExpressionAttributeValues"]}
    return WORDS.sub(lambda found: str(known.get(found[0], found[0])), str(update[part]))
