"""DynamoDB's capacity units as a pure function of items before and after, and the table's plan.

The rules are those of AWS's developer guide ("Read and write operations", "Item sizes and
formats", "Using global secondary indexes"). Run with `ENGINE=dynamodb-local`, a test compares them
with what AWS's own engine counts (tests/integration/test_capacity_units.py).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from oncely.contracts.table_schema import IndexSchema, TableSchema

DynamoItem: TypeAlias = Mapping[str, Any]  # in the SDK's form: {"status": {"S": "ready"}}
Units: TypeAlias = Counter[str]  # by index; the table itself is TABLE

TABLE: Final = ""
WRITE_BYTES: Final = 1024
READ_BYTES: Final = 4096
STORED_OVERHEAD: Final = 100  # bytes of storage for an item, and for each entry of an index
# A transaction writes each item twice: once to prepare, once to commit. Its indexes follow the
# commit, so they are written once.
TRANSACTION: Final = 2

_CONTAINER_BYTES: Final = 3
_ELEMENT_BYTES: Final = 1


def item_bytes(item: DynamoItem) -> int:
    """The size of an item: its attributes' names and values."""
    return sum(_text(name) + _value(value) for name, value in item.items())


def write_units(
    plan: TableSchema,
    before: DynamoItem | None,
    after: DynamoItem | None,
    *,
    transactional: bool = False,
) -> Units:
    """What one write consumes of the table and of each index.

    A write that a condition refused leaves the item as it was: `before` and `after` are equal, and
    the table still charges for the item.
    """
    units: Units = Counter()
    largest = max(item_bytes(item or {}) for item in (before, after))
    units[TABLE] = _round_up(largest, WRITE_BYTES) * (TRANSACTION if transactional else 1)
    for index in plan.indexes:
        if moved := _index_units(_entry(plan, index, before), _entry(plan, index, after)):
            units[index.name] = moved
    return units


def partition_units(
    plan: TableSchema, before: DynamoItem | None, after: DynamoItem | None
) -> Counter[tuple[str, str]]:
    units: Counter[tuple[str, str]] = Counter()
    for index in plan.indexes:
        old, new = (_entry(plan, index, item) for item in (before, after))
        if old is not None and new is not None and _index_key(old) == _index_key(new):
            units[index.name, _partition(index, new)] += _index_units(old, new)
            continue
        for entry in filter(None, (old, new)):
            units[index.name, _partition(index, entry)] += _index_units(None, entry)
    return +units


def read_units(items: Iterable[DynamoItem], *, consistent: bool) -> float:
    """What one read consumes. A read without a result costs the minimum."""
    whole = _round_up(sum(map(item_bytes, items)), READ_BYTES)
    return whole if consistent else whole / 2


def stored_bytes(plan: TableSchema, item: DynamoItem) -> int:
    """What storage is billed for: the item and its index entries, each with an overhead."""
    entries = filter(None, (_entry(plan, index, item) for index in plan.indexes))
    return sum(STORED_OVERHEAD + item_bytes(one) for one in (item, *entries))


def _index_units(before: DynamoItem | None, after: DynamoItem | None) -> int:
    """An entry is created, removed, updated, or moved, which removes and creates it."""
    match before, after:
        case None, None:
            return 0
        case (None, entry) | (entry, None):
            return _round_up(item_bytes(entry or {}), WRITE_BYTES)
        case (old, new) if old == new:
            return 0
        case old, new:
            return _changed_units(old or {}, new or {})


def _changed_units(old: DynamoItem, new: DynamoItem) -> int:
    sizes = [_round_up(item_bytes(entry), WRITE_BYTES) for entry in (old, new)]
    # Only projected attributes that are not part of the index's key are updated in place.
    return max(sizes) if _index_key(old) == _index_key(new) else sum(sizes)


class _Entry(dict[str, Any]):
    index_key: tuple[str, ...]


def _index_key(entry: DynamoItem) -> list[Any]:
    names = entry.index_key if isinstance(entry, _Entry) else ()
    return [entry[name] for name in names]


def _entry(plan: TableSchema, index: IndexSchema, item: DynamoItem | None) -> DynamoItem | None:
    """The index entry of an item. Returns None if it lacks a part of the index's key."""
    if item is None or not all(name in item for name in index.key.names):
        return None
    copied = (*plan.key.names, *index.key.names, *index.include)
    entry = _Entry((name, item[name]) for name in copied if name in item)
    entry.index_key = index.key.names
    return entry


def _partition(index: IndexSchema, entry: DynamoItem) -> str:
    return str(entry[index.key.partition]["S"])


def _round_up(size: int, unit: int) -> int:
    return max(1, math.ceil(size / unit))


def _value(value: Mapping[str, Any]) -> int:
    [(kind, held)] = value.items()
    match kind:
        case "S":
            return _text(held)
        case "N":
            return _number(held)
        case "B":
            return len(held)
        case "BOOL" | "NULL":
            return 1
        case "SS":
            return sum(map(_text, held))
        case "NS":
            return sum(map(_number, held))
        case "L" | "M":
            return _CONTAINER_BYTES + sum(size + _ELEMENT_BYTES for size in _elements(held))
        case _:
            raise ValueError(f"the size of a value of type {kind} is not known")


def _elements(held: Any) -> Iterator[int]:  # noqa: ANN401  # a list or a map in the SDK's form
    if isinstance(held, Mapping):
        return (_text(name) + _value(value) for name, value in held.items())
    return (_value(value) for value in held)


def _text(text: str) -> int:
    return len(text.encode())


def _number(text: str) -> int:
    whole, _, part = f"{Decimal(text.lstrip('-')):f}".partition(".")
    digits = f"{'0' * (len(whole) % 2)}{whole}{part}{'0' * (len(part) % 2)}"
    pairs = [digits[place : place + 2] for place in range(0, len(digits), 2)]
    used = [place for place, pair in enumerate(pairs) if pair != "00"]
    return 1 + (used[-1] - used[0] + 1 if used else 0) + text.startswith("-")
