"""The model of DynamoDB's capacity units; an opt-in test confirms it on DynamoDB Local."""

from typing import Any

import pytest

from oncely.contracts.table_schema import IndexSchema, KeySchema, TableSchema
from tests.bench.capacity import (
    TABLE,
    item_bytes,
    partition_units,
    read_units,
    stored_bytes,
    write_units,
)

Row = dict[str, Any]
PLAN = TableSchema(
    name="jobs",
    key=KeySchema(partition="id"),
    indexes=(
        IndexSchema(name="due", key=KeySchema(partition="shard", sort="due_at")),
        IndexSchema(name="listed", key=KeySchema(partition="status"), include=("note",)),
    ),
)


def item(**more: str) -> Row:
    return {name: {"S": value} for name, value in {"id": "1", **more}.items()}


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": "äb"}, 3),
        ({"N": "0"}, 1),
        ({"N": "100"}, 2),
        ({"N": "-12345"}, 5),
        ({"N": "12.5"}, 3),
        ({"BOOL": True}, 1),
        ({"NULL": True}, 1),
        ({"B": b"abc"}, 3),
        ({"SS": ["a", "bc"]}, 3),
        ({"L": []}, 3),
        ({"L": [{"S": "ab"}]}, 6),
        ({"M": {"k": {"S": "ab"}}}, 7),
    ],
)
def test_value_size_depends_on_type(value: dict[str, Any], size: int) -> None:
    assert item_bytes({"name": value}) == len("name") + size


def test_write_is_rounded_up_by_larger_image() -> None:
    large, small = item(note="x" * 1500), item()
    assert write_units(PLAN, large, small)[TABLE] == 2
    assert write_units(PLAN, small, large)[TABLE] == 2
    assert write_units(PLAN, small, small)[TABLE] == 1


def test_transaction_doubles_table_units_but_not_index_units() -> None:
    ready = item(status="ready")
    assert write_units(PLAN, None, ready, transactional=True) == {TABLE: 2, "listed": 1}


def test_failed_write_costs_as_much_as_item() -> None:
    assert write_units(PLAN, None, None) == {TABLE: 1}
    large = item(note="x" * 3000)
    assert write_units(PLAN, large, large) == {TABLE: 3}


@pytest.mark.parametrize(
    ("before", "after", "units"),
    [
        (item(), item(shard="1", due_at="2"), {"due": 1}),  # made
        (item(shard="1", due_at="2"), item(shard="1"), {"due": 1}),  # removed
        (item(shard="1", due_at="2"), item(shard="1", due_at="3"), {"due": 2}),  # moved
        (item(shard="1", due_at="2"), item(shard="1", due_at="2", x="y"), {}),  # not projected
        (item(status="a", note="b"), item(status="a", note="c"), {"listed": 1}),  # projected
        (item(status="a", note="b"), item(status="b", note="b"), {"listed": 2}),
        (item(shard="1"), item(shard="2"), {}),  # never in the index
    ],
)
def test_index_units_follow_entry_changes(before: Row, after: Row, units: dict[str, int]) -> None:
    assert write_units(PLAN, before, after) == {TABLE: 1, **units}


def test_index_entry_is_rounded_up_by_its_own_size() -> None:
    assert write_units(PLAN, None, item(status="a", note="x" * 1500)) == {TABLE: 2, "listed": 2}


def test_read_units_depend_on_size_and_consistency() -> None:
    large = item(note="x" * 5000)

    assert read_units([], consistent=True) == 1
    assert read_units([item()], consistent=False) == 0.5
    assert read_units([item(), large], consistent=True) == 2
    assert read_units([large, large], consistent=False) == 1.5


def test_stored_size_includes_index_entries_and_overhead() -> None:
    assert stored_bytes(PLAN, item()) == 100 + 3
    assert stored_bytes(PLAN, item(status="a", x="y")) == (100 + 12) + (100 + 10)


def test_moved_entry_costs_both_partitions() -> None:
    before, after = item(status="a", note="b"), item(status="b", note="b")
    assert partition_units(PLAN, before, after) == {("listed", "a"): 1, ("listed", "b"): 1}
    assert partition_units(PLAN, before, before) == {}
    assert partition_units(PLAN, before, item(status="a", note="c")) == {("listed", "a"): 1}
