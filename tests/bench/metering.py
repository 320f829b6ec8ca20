"""Meters a DynamoDB client: the units of each call, by table and index, as the model counts them.

On DynamoDB Local, the engine's own count is kept as well.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from oncely.operate.own_tables import JOBS
from tests.bench.capacity import (
    TABLE,
    TRANSACTION,
    DynamoItem,
    item_bytes,
    partition_units,
    read_units,
    write_units,
)
from tests.support.dynamo import DynamoFixture
from tests.support.table_schemas import TABLE_SCHEMAS

TableOrIndex: TypeAlias = tuple[str, str]  # a table's short name and an index, or TABLE
UnitsByIndex: TypeAlias = Counter[TableOrIndex]

# Does not touch items, so it consumes no units.
_FREE: Final = frozenset({"DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups"})


@dataclass(frozen=True, kw_only=True)
class MeteredCall:
    """One call: its units by the model, and by the engine if it counts them."""

    operation: str
    writes: UnitsByIndex
    reads: UnitsByIndex
    failed: bool
    engine_units: UnitsByIndex | None = None


@dataclass(repr=False)
class Meter:
    dynamo: DynamoFixture
    engine_reports_units: bool = False  # only DynamoDB Local counts them
    calls: list[MeteredCall] = field(default_factory=list)
    max_item_bytes: dict[str, int] = field(default_factory=dict)  # bytes of an item, by table
    # Units by table, index and partition of the index: one partition takes 1,000 a second.
    hot_partitions: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        names = {JOBS: self.dynamo.jobs_table, **self.dynamo.tables}
        self._short = {name: short for short, name in names.items()}
        self.dynamo.watch_new_clients(self.watch)

    def watch(self, client: Any) -> None:  # noqa: ANN401  # any DynamoDB client of the SDK's
        client.meta.events.register("provide-client-params.dynamodb", self._before)
        client.meta.events.register("after-call.dynamodb", self._after)

    @contextmanager
    def meter_calls(self) -> Iterator[list[MeteredCall]]:
        first = len(self.calls)
        made: list[MeteredCall] = []
        yield made
        made += self.calls[first:]

    def _before(self, params: Any, model: Any, context: Any, **_: object) -> None:  # noqa: ANN401  # botocore's
        if model.name in _FREE:
            return
        if self.engine_reports_units:
            params["ReturnConsumedCapacity"] = "INDEXES"
        touched = list(_touched_items(model.name, params))
        context["metered"] = params, touched, [self._item(*one) for one in touched]

    def _after(self, parsed: Any, model: Any, context: Any, **_: object) -> None:  # noqa: ANN401  # botocore's
        if "metered" not in context:
            return
        params, touched, before = context.pop("metered")
        after = [self._item(*one) for one in touched]
        operation = model.name
        writes: UnitsByIndex = Counter()
        for (table, _key), old, new in zip(touched, before, after, strict=True):
            short = self._short[table]
            units = write_units(
                TABLE_SCHEMAS[short], old, new, transactional=operation == "TransactWriteItems"
            )
            writes.update({(short, index): count for index, count in units.items()})
            self._record_item(short, old, new)
        call = MeteredCall(
            operation=operation,
            writes=writes,
            reads=self._reads(operation, params, parsed),
            failed="Error" in parsed,
            engine_units=self._counted(operation, parsed),
        )
        with self._lock:
            self.calls.append(call)

    def _reads(
        self, operation: str, params: Mapping[str, Any], parsed: Mapping[str, Any]
    ) -> UnitsByIndex:
        if operation not in {"GetItem", "Query", "Scan"} or "Error" in parsed:
            return Counter()
        place = self._short[params["TableName"]], params.get("IndexName", TABLE)
        items = [parsed["Item"]] if "Item" in parsed else parsed.get("Items", [])
        units = read_units(items, consistent=params.get("ConsistentRead", False))
        return _bill({place: units})

    def _counted(self, operation: str, parsed: Mapping[str, Any]) -> UnitsByIndex | None:
        consumed = parsed.get("ConsumedCapacity")
        if not self.engine_reports_units or consumed is None:
            return None
        # DynamoDB Local doubles the units of indexes inside a transaction, AWS does not: an index
        # is written after the commit, once.
        doubled = TRANSACTION if operation == "TransactWriteItems" else 1
        bill: UnitsByIndex = Counter()
        for one in consumed if isinstance(consumed, list) else [consumed]:
            short = self._short[one["TableName"]]
            places = {(short, TABLE): one.get("Table", {}).get("CapacityUnits", 0)}
            for index, units in one.get("GlobalSecondaryIndexes", {}).items():
                places[short, index] = units["CapacityUnits"] / doubled
            bill.update(_bill(places))
        return bill

    def _item(self, table: str, key: DynamoItem) -> DynamoItem | None:
        admin = self.dynamo.admin
        return admin.get_item(TableName=table, Key=dict(key), ConsistentRead=True).get("Item")

    def _record_item(self, table: str, old: DynamoItem | None, new: DynamoItem | None) -> None:
        with self._lock:
            self.max_item_bytes[table] = max(
                self.max_item_bytes.get(table, 0), item_bytes(new or {})
            )
            for (index, partition), units in partition_units(
                TABLE_SCHEMAS[table], old, new
            ).items():
                self.hot_partitions[table, index, partition] += units


def total_units(
    calls: list[MeteredCall], which: Callable[[MeteredCall], UnitsByIndex]
) -> UnitsByIndex:
    bill: UnitsByIndex = Counter()
    for call in calls:
        bill.update(which(call))
    return bill


def _bill(places: Mapping[TableOrIndex, float]) -> UnitsByIndex:
    # A Counter also works with halves, although its type allows only integers.
    bill: Any = {place: units for place, units in places.items() if units}
    return Counter(bill)


def _touched_items(operation: str, params: Mapping[str, Any]) -> Iterator[tuple[str, DynamoItem]]:
    match operation:
        case "GetItem" | "Query" | "Scan":
            return
        case "UpdateItem" | "DeleteItem":
            yield params["TableName"], params["Key"]
        case "PutItem":
            yield params["TableName"], _key_of(params)
        case "TransactWriteItems":
            for item in params["TransactItems"]:
                [(kind, write)] = item.items()
                yield write["TableName"], _key_of(write) if kind == "Put" else write["Key"]
        case _:
            raise NotImplementedError(f"{operation} is not metered: teach tests/bench/metering.py")


def _key_of(put: Mapping[str, Any]) -> DynamoItem:
    short = put["TableName"].partition("-")[0]
    return {name: put["Item"][name] for name in TABLE_SCHEMAS[short].key.names}
