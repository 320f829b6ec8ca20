"""DynamoDB in memory: the operations, parameters and limits that the adapters meet.

A parameter or an expression that no adapter uses raises a ValueError.
"""

import copy
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache, wraps
from typing import Any, Final, TypeAlias

from oncely.contracts.table_schema import IndexSchema, TableSchema
from oncely.testing.memory_aws.attribute_values import (
    RefusedError,
    Value,
    attributes_size,
    canonical,
    size,
)
from oncely.testing.memory_aws.calls import (
    Intercept,
    MemoryClient,
    MemoryPaginator,
    client_error,
    operation,
)
from oncely.testing.memory_aws.expressions import (
    ItemValues,
    Names,
    bind,
    parse_condition,
    parse_key_condition,
    parse_projection,
    parse_update,
    resolve,
)

Key: TypeAlias = tuple[str, ...]
Response: TypeAlias = dict[str, Any]
_Rows: TypeAlias = Mapping[Key, "Item"]

TTL_ATTRIBUTE: Final = "expires_at"
TOKEN_LIFETIME: Final = timedelta(minutes=10)
MAX_ITEM_BYTES: Final = 400 * 1024
MAX_PAGE_BYTES: Final = 1024 * 1024
MAX_TRANSACTION_BYTES: Final = 4 * 1024 * 1024
MAX_TRANSACTION_ITEMS: Final = 100
MAX_BATCH_KEYS: Final = 100
_MAX_PARTITION_KEY_BYTES: Final = 2048
_MAX_SORT_KEY_BYTES: Final = 1024
_MAX_UTF8_BYTES: Final = 4  # of one character

_EXPRESSION_VALUES: Final = ("ExpressionAttributeNames", "ExpressionAttributeValues")
_CONDITION: Final = (
    *("TableName", "ConditionExpression", "ReturnValuesOnConditionCheckFailure"),
    *_EXPRESSION_VALUES,
)
_UPDATE: Final = (*_CONDITION, "Key", "UpdateExpression")
_PAGE: Final = ("TableName", "ConsistentRead", "Limit", "ExclusiveStartKey")
_QUERY: Final = (
    *("IndexName", "KeyConditionExpression", "ProjectionExpression", "ScanIndexForward", "Select"),
    *_PAGE,
    *_EXPRESSION_VALUES,
)
_BATCH: Final = frozenset({"TableName", "Keys", "ConsistentRead"})
_STATEMENT: Final = ("Statement", "Parameters")
# The code of an error among the reasons of a cancelled transaction.
_REASONS: Final = {
    "ConditionalCheckFailedException": "ConditionalCheckFailed",
    "DuplicateItemException": "DuplicateItem",
    "ValidationException": "ValidationError",
}
_NO_ITEM: Final[ItemValues] = {}
_QUOTED: Final = r'"([^"]+)"'
_INSERT: Final = re.compile(rf"INSERT INTO {_QUOTED} VALUE {{('[^']+': \?(?:, '[^']+': \?)*)}}")
_SET: Final = re.compile(rf"SET {_QUOTED} = \?")
_EQUALS: Final = re.compile(rf"{_QUOTED} = \?")
_UPDATE_STATEMENT: Final = re.compile(
    rf"UPDATE {_QUOTED} ({_SET.pattern}(?: {_SET.pattern})*)"
    rf" WHERE ({_EQUALS.pattern}(?: AND {_EQUALS.pattern})*)"
)


class Item(dict[str, Value]):
    """A stored item. It is replaced and never changed, so a digest can be kept with it."""

    @cached_property
    def size(self) -> int:
        """What counts against DynamoDB's limits."""
        return attributes_size(self)


@dataclass(frozen=True)
class _Write:
    """One write of a request that is valid. `decide` returns the item after it, or refuses."""

    table: str
    key: Key
    decide: Callable[[Item | None], Item | None]


def _dynamodb_operation(
    *parameters: str, writes: bool
) -> Callable[[Callable[[Any, Mapping[str, Any]], Response]], Callable[..., Response]]:
    """Make a method that takes a request one call, with what DynamoDB refuses as boto3's error."""
    supported = frozenset(parameters)

    def decorate(
        method: Callable[[Any, Mapping[str, Any]], Response],
    ) -> Callable[..., Response]:
        name = "".join(word.capitalize() for word in method.__name__.split("_"))

        @operation(writes=writes)
        @wraps(method)
        def perform(self: "MemoryDynamo", **request: Any) -> Response:  # noqa: ANN401  # as boto3 takes them
            _check_supported(method.__name__, request, supported)
            with self.lock:
                try:
                    return method(self, request)
                except RefusedError as error:
                    raise client_error(error.code, name, str(error), **error.response) from None

        return perform

    return decorate


class MemoryDynamo(MemoryClient):
    """A client of the tables with these names. Its state is in `tables`, `tokens` and `undone`."""

    service = "dynamodb"

    def __init__(
        self,
        tables: Mapping[str, TableSchema],
        *,
        now: Callable[[], datetime],
    ) -> None:
        super().__init__()
        self.now = now
        self.schemas: dict[str, TableSchema] = {}
        self.tables: dict[str, dict[Key, Item]] = {}
        self.table_ids: dict[str, str] = {}  # a restored table has another one
        for name, schema in tables.items():
            self.add_table(name, schema)
        # The transactions of the last 10 minutes by their idempotency token.
        self.tokens: dict[str, tuple[datetime, Sequence[Any]]] = {}
        # The items of the latest write as they were before it, for a stale read.
        self.undone: dict[tuple[str, Key], Item | None] = {}
        self.is_stale = False
        self.lock = threading.RLock()  # of every thread that uses the tables

    def add_table(self, name: str, schema: TableSchema) -> None:
        """Add an empty table."""
        self.schemas[name], self.tables[name] = schema, {}
        self.table_ids[name] = f"id-of-{name}"

    def with_intercept(self, intercept: Intercept) -> "MemoryDynamo":
        """Another client of the same tables."""
        other = copy.copy(self)
        other.intercept = intercept
        return other

    @contextmanager
    def stale(self) -> Iterator[None]:
        """Let reads that need not be consistent, such as those of an index, miss the last write."""
        self.is_stale = True
        try:
            yield
        finally:
            self.is_stale = False

    @_dynamodb_operation("TableName", "Key", "ConsistentRead", writes=False)
    def get_item(self, request: Mapping[str, Any]) -> Response:
        table = self._table(request)
        found = self._rows(request).get(_full_key(table, request["Key"]))
        return {} if found is None else {"Item": dict(found)}

    @_dynamodb_operation("RequestItems", writes=False)
    def batch_get_item(self, request: Mapping[str, Any]) -> Response:
        responses: dict[str, list[Any]] = {}
        total = 0
        for name, wanted in request["RequestItems"].items():
            part = {"TableName": name, **wanted}
            _check_supported("batch_get_item", part, _BATCH)
            table, rows = self._table(part), self._rows(part)
            keys = [_full_key(table, key) for key in part["Keys"]]
            total += len(keys)
            if len(set(keys)) < len(keys):
                raise RefusedError("Provided list of item keys contains duplicates")
            responses[name] = [dict(rows[key]) for key in keys if key in rows]
        if not 1 <= total <= MAX_BATCH_KEYS:
            raise RefusedError(f"a batch has 1 to {MAX_BATCH_KEYS} keys")
        return {"Responses": responses, "UnprocessedKeys": {}}

    @_dynamodb_operation(*_CONDITION, "Item", writes=True)
    def put_item(self, request: Mapping[str, Any]) -> Response:
        self._commit(self._put(request))
        return {}

    @_dynamodb_operation(*_UPDATE, "ReturnValues", writes=True)
    def update_item(self, request: Mapping[str, Any]) -> Response:
        if (wanted := request.get("ReturnValues", "NONE")) not in {"NONE", "ALL_NEW"}:
            raise ValueError(f"ReturnValues={wanted} is not supported")
        after = self._commit(self._update(request))
        return {"Attributes": dict(after or {})} if wanted == "ALL_NEW" else {}

    @_dynamodb_operation(*_CONDITION, "Key", writes=True)
    def delete_item(self, request: Mapping[str, Any]) -> Response:
        self._commit(self._delete(request))
        return {}

    @_dynamodb_operation("TransactItems", "ClientRequestToken", writes=True)
    def transact_write_items(self, request: Mapping[str, Any]) -> Response:
        items = request["TransactItems"]
        kinds = {
            "ConditionCheck": (self._condition_check, (*_CONDITION, "Key")),
            "Update": (self._update, _UPDATE),
        }
        writes = []
        for item in items:
            _check_supported("transact_write_items", item, frozenset(kinds))
            [(kind, part)] = item.items()
            prepare, parameters = kinds[kind]
            _check_supported(kind, part, frozenset(parameters))
            writes.append(prepare(part))
        self._transact(request, items, writes)
        return {}

    @_dynamodb_operation(*_STATEMENT, writes=True)
    def execute_statement(self, request: Mapping[str, Any]) -> Response:
        self._commit(self._statement(request))
        return {"Items": []}

    @_dynamodb_operation("TransactStatements", "ClientRequestToken", writes=True)
    def execute_transaction(self, request: Mapping[str, Any]) -> Response:
        statements = request["TransactStatements"]
        writes = []
        for part in statements:
            _check_supported("TransactStatements", part, frozenset(_STATEMENT))
            writes.append(self._statement(part))
        self._transact(request, statements, writes)  # the SDK adds a token to each
        return {"Responses": []}

    @_dynamodb_operation(*_QUERY, writes=False)
    def query(self, request: Mapping[str, Any]) -> Response:
        table = self._table(request)
        index = _index(table, request)
        condition = parse_key_condition(request["KeyConditionExpression"])
        page = _Page(table, index, request, [condition])
        partition, in_range = _key_range(page, condition.clauses)
        key = page.key.partition
        rows = [
            item
            for item in self._rows(request).values()
            if item.get(key) == partition
            and (page.key.sort is None or page.key.sort in item)
            and in_range(item, page.names, page.values)
        ]
        start = request.get("ExclusiveStartKey")
        if start is not None and not (
            start.get(key) == partition and in_range(start, page.names, page.values)
        ):
            raise RefusedError("The provided starting key is outside query boundaries")
        return page.read(rows, is_forward=request.get("ScanIndexForward", True))

    @_dynamodb_operation(*_PAGE, writes=False)
    def scan(self, request: Mapping[str, Any]) -> Response:
        page = _Page(self._table(request), None, request, [])
        return page.read([*self._rows(request).values()])

    def get_paginator(self, name: str) -> MemoryPaginator:
        """The pages of `query` or `scan`."""
        read = {"query": self.query, "scan": self.scan}[name]
        return MemoryPaginator(read, {"LastEvaluatedKey": "ExclusiveStartKey"})

    @_dynamodb_operation("TableName", writes=False)
    def describe_table(self, request: Mapping[str, Any]) -> Response:
        table, name = self._table(request), request["TableName"]
        arn = f"arn:aws:dynamodb:us-east-1:000000000000:table/{name}"
        stream = {
            "StreamSpecification": {
                "StreamEnabled": True,
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
            "LatestStreamArn": f"{arn}/stream/2026-01-01T00:00:00.000",
        }
        return {
            "Table": {
                "TableName": name,
                "TableArn": arn,
                "TableId": self.table_ids[name],
                **(stream if table.has_stream else {}),
            }
        }

    @_dynamodb_operation("TableName", writes=False)
    def describe_time_to_live(self, request: Mapping[str, Any]) -> Response:
        on = {"TimeToLiveStatus": "ENABLED", "AttributeName": TTL_ATTRIBUTE}
        off = {"TimeToLiveStatus": "DISABLED"}
        return {"TimeToLiveDescription": on if self._table(request).has_ttl else off}

    @_dynamodb_operation("TableName", writes=False)
    def describe_continuous_backups(self, request: Mapping[str, Any]) -> Response:
        self._table(request)
        return {
            "ContinuousBackupsDescription": {
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"},
            }
        }

    def _table(self, request: Mapping[str, Any]) -> TableSchema:
        name = request["TableName"]
        if name not in self.tables:
            raise RefusedError("Requested resource not found", "ResourceNotFoundException")
        return self.schemas[name]

    def _rows(self, request: Mapping[str, Any]) -> _Rows:
        name = request["TableName"]
        rows: _Rows = self.tables[name]
        if not self.is_stale or request.get("ConsistentRead"):
            return rows
        before = {key: item for (table, key), item in self.undone.items() if table == name}
        seen = {**rows, **before}
        return {key: item for key, item in seen.items() if item is not None}

    def _put(self, request: Mapping[str, Any]) -> _Write:
        table = self._table(request)
        item = Item({name: canonical(value) for name, value in request["Item"].items()})
        key = _key(table, item)
        check = _condition(request)
        _check_size(item)

        def decide(before: Item | None) -> Item:
            _check_index_keys(table, item)
            check(before)
            return item

        return _Write(request["TableName"], key, decide)

    def _update(self, request: Mapping[str, Any]) -> _Write:
        table = self._table(request)
        update = parse_update(request["UpdateExpression"])
        text = request.get("ConditionExpression")
        condition = None if text is None else parse_condition(text)
        names, values = bind([update] if condition is None else [update, condition], request)
        targets = {resolve(path, names) for path in update.targets}
        if len(targets) < len(update.targets):
            raise RefusedError("Two document paths overlap with each other")
        if not targets.isdisjoint(table.key.names):
            raise RefusedError("Cannot update an attribute that is part of the key")
        key = _full_key(table, request["Key"])

        def decide(before: Item | None) -> Item:
            held: ItemValues = _NO_ITEM if before is None else before
            if condition is not None and not condition.holds(held, names, values):
                raise _condition_failed(request, before)
            start = _key_attributes(table, key) if before is None else before
            item = Item(update.apply(start, names, values))
            _check_index_keys(table, item)
            _check_size(item)
            return item

        return _Write(request["TableName"], key, decide)

    def _delete(self, request: Mapping[str, Any]) -> _Write:
        table = self._table(request)
        check = _condition(request)

        def decide(before: Item | None) -> None:
            check(before)

        return _Write(request["TableName"], _full_key(table, request["Key"]), decide)

    def _condition_check(self, request: Mapping[str, Any]) -> _Write:
        table = self._table(request)
        check = _condition(request)

        def decide(before: Item | None) -> Item | None:
            check(before)
            return before

        return _Write(request["TableName"], _full_key(table, request["Key"]), decide)

    def _statement(self, request: Mapping[str, Any]) -> _Write:
        """The PartiQL statements of the inserter."""
        statement = _parse_statement(request["Statement"])
        values = [canonical(value) for value in request.get("Parameters", [])]
        if len(values) != len(statement.sets) + len(statement.where):
            raise RefusedError("Number of parameters in request and statement don't match.")
        table = self._table({"TableName": statement.table})
        sets = dict(zip(statement.sets, values, strict=False))
        if not statement.where:
            return _insert(statement.table, table, Item(sets))
        where = dict(zip(statement.where, values[len(statement.sets) :], strict=True))
        key = _key(table, where)
        if not sets.keys().isdisjoint(table.key.names):
            raise RefusedError("Cannot update an attribute that is part of the key")

        def decide(before: Item | None) -> Item:
            if before is None or any(before.get(name) != where[name] for name in where):
                raise _condition_failed({}, before)
            item = Item({**before, **sets})
            _check_index_keys(table, item)
            _check_size(item)
            return item

        return _Write(statement.table, key, decide)

    def _commit(self, write: _Write) -> Item | None:
        before = self.tables[write.table].get(write.key)
        after = write.decide(before)
        self._store([(write, before, after)])
        return after

    def _transact(
        self, request: Mapping[str, Any], content: Sequence[Any], writes: Sequence[_Write]
    ) -> None:
        """Write all, or none if one is refused. A request with a known token is not repeated."""
        self._forget_tokens()
        token = request.get("ClientRequestToken")
        if token in self.tokens:
            if self.tokens[token][1] != content:
                raise RefusedError("another request", "IdempotentParameterMismatchException")
            return
        if not 1 <= len(writes) <= MAX_TRANSACTION_ITEMS:
            raise RefusedError(f"a transaction has 1 to {MAX_TRANSACTION_ITEMS} items")
        if len({(write.table, write.key) for write in writes}) < len(writes):
            raise RefusedError("Transaction request cannot include multiple operations on one item")
        changes: list[tuple[_Write, Item | None, Item | None]] = []
        reasons: list[Response] = []
        for write in writes:
            before = self.tables[write.table].get(write.key)
            try:
                changes.append((write, before, write.decide(before)))
                reasons.append({"Code": "None"})
            except RefusedError as error:
                code = _REASONS[error.code]
                reasons.append({"Code": code, "Message": str(error), **error.response})
        if len(changes) < len(writes):
            raise RefusedError(
                f"Transaction cancelled: {[reason['Code'] for reason in reasons]}",
                "TransactionCanceledException",
                CancellationReasons=reasons,
            )
        sizes = (max(_size(before), _size(after)) for _, before, after in changes)
        if sum(sizes) > MAX_TRANSACTION_BYTES:
            raise RefusedError("The items of the transaction exceed 4 MB")
        self._store(changes)
        if token is not None:
            self.tokens[token] = (self.now() + TOKEN_LIFETIME, content)

    def _store(self, changes: Sequence[tuple[_Write, Item | None, Item | None]]) -> None:
        self.undone.clear()
        for write, before, after in changes:
            if after is before:
                continue
            self.undone[write.table, write.key] = before
            if after is None:
                del self.tables[write.table][write.key]
            else:
                self.tables[write.table][write.key] = after

    def _forget_tokens(self) -> None:
        now = self.now()
        while self.tokens:
            oldest = next(iter(self.tokens))
            if self.tokens[oldest][0] > now:
                return
            del self.tokens[oldest]


class _Page:
    """One page of a query or a scan."""

    def __init__(
        self,
        table: TableSchema,
        index: IndexSchema | None,
        request: Mapping[str, Any],
        conditions: Sequence[Any],
    ) -> None:
        self.table, self.index, self.request = table, index, request
        self.key = table.key if index is None else index.key
        # A position is unique, and stays when its row leaves the index.
        self.place = self.key.names if index is None else (*self.key.names, *table.key.names)
        text = request.get("ProjectionExpression")
        self.projection = None if text is None else parse_projection(text)
        parsed = [*conditions, *([] if self.projection is None else [self.projection])]
        self.names, self.values = bind(parsed, request)
        self.is_count = request.get("Select", "ALL") == "COUNT"
        if not self.is_count and "Select" in request:
            raise ValueError(f"Select={request['Select']} is not supported")
        if request.get("Limit", 1) < 1:
            raise RefusedError("Limit must be at least 1")
        if index is not None and request.get("ConsistentRead"):
            raise RefusedError("Consistent reads are not supported on global secondary indexes")

    def read(self, rows: Sequence[Item], *, is_forward: bool = True) -> Response:
        """The items of the page, in order."""
        ordered = sorted(((self._position(item), item) for item in rows), reverse=not is_forward)
        if (start := self.request.get("ExclusiveStartKey")) is not None:
            if start.keys() != set(self.place):
                raise RefusedError("The provided starting key is invalid")
            after = self._position(start)
            ordered = [
                (place, item)
                for place, item in ordered
                if (place > after if is_forward else place < after)
            ]
        limit = self.request.get("Limit", len(ordered) + 1)
        found: list[dict[str, Value]] = []
        read_bytes, last = 0, None
        for _, item in ordered:
            entry = item if self.index is None else self._project(item, self._projected)
            read_bytes += item.size if self.index is None else attributes_size(entry)
            found.append(self._shown(entry))
            # DynamoDB does not look whether another item follows.
            if len(found) == limit or read_bytes >= MAX_PAGE_BYTES:
                last = item
                break
        more = {} if last is None else {"LastEvaluatedKey": self._project(last, self.place)}
        items = {} if self.is_count else {"Items": found}
        return {**items, "Count": len(found), "ScannedCount": len(found), **more}

    @cached_property
    def _projected(self) -> tuple[str, ...]:
        return self.place if self.index is None else (*self.place, *self.index.include)

    def _position(self, item: Mapping[str, Value]) -> Key:
        return tuple([item[name]["S"] for name in self.place])

    def _shown(self, entry: dict[str, Value]) -> dict[str, Value]:
        if self.projection is None:
            return dict(entry)
        wanted = [resolve(path, self.names) for path in self.projection.paths]
        if self.index is not None and (lacking := set(wanted) - set(self._projected)):
            raise RefusedError(f"the index {self.index.name} does not project {sorted(lacking)}")
        return self._project(entry, wanted)

    @staticmethod
    def _project(item: Mapping[str, Value], names: Sequence[str]) -> dict[str, Value]:
        return {name: item[name] for name in names if name in item}


@dataclass(frozen=True)
class _Statement:
    """A PartiQL statement: the attributes that it sets, and those that must be equal."""

    table: str
    sets: tuple[str, ...]
    where: tuple[str, ...] = ()


@lru_cache(1024)
def _parse_statement(text: str) -> _Statement:
    if found := _INSERT.fullmatch(text):
        return _Statement(found[1], tuple(re.findall(r"'([^']+)'", found[2])))
    if found := _UPDATE_STATEMENT.fullmatch(text):
        # Each group of the pattern has groups of its own, so the parts are read again.
        sets, _, where = text.partition(" WHERE ")
        return _Statement(found[1], tuple(_SET.findall(sets)), tuple(_EQUALS.findall(where)))
    raise ValueError(f"DynamoDB in memory does not support the statement {text!r}")


def _insert(name: str, table: TableSchema, item: Item) -> _Write:
    key = _key(table, item)
    _check_size(item)

    def decide(before: Item | None) -> Item:
        _check_index_keys(table, item)
        if before is not None:
            raise RefusedError("Duplicate primary key exists in table", "DuplicateItemException")
        return item

    return _Write(name, key, decide)


def _check_supported(name: str, request: Mapping[str, Any], supported: frozenset[str]) -> None:
    if not supported.issuperset(request):
        unknown = sorted(request.keys() - supported)
        raise ValueError(f"DynamoDB in memory does not support {', '.join(unknown)} of {name}")


def _condition(request: Mapping[str, Any]) -> Callable[[Item | None], None]:
    """A check of the request's condition, which refuses the item."""
    text = request.get("ConditionExpression")
    if text is None:
        bind([], request)
        return lambda _before: None
    condition = parse_condition(text)
    names, values = bind([condition], request)

    def check(before: Item | None) -> None:
        if not condition.holds(_NO_ITEM if before is None else before, names, values):
            raise _condition_failed(request, before)

    return check


def _condition_failed(request: Mapping[str, Any], before: Item | None) -> RefusedError:
    wants_old = request.get("ReturnValuesOnConditionCheckFailure", "NONE") == "ALL_OLD"
    shown = {"Item": dict(before)} if wants_old and before is not None else {}
    return RefusedError(
        "The conditional request failed", "ConditionalCheckFailedException", **shown
    )


def _index(table: TableSchema, request: Mapping[str, Any]) -> IndexSchema | None:
    name = request.get("IndexName")
    if name is None:
        return None
    for index in table.indexes:
        if index.name == name:
            return index
    raise RefusedError(f"The table does not have the specified index: {name}")


def _key_range(
    page: _Page, clauses: Sequence[tuple[str, str, tuple[str, ...], Any]]
) -> tuple[Value, Callable[[ItemValues, Names, ItemValues], bool]]:
    """The partition that a query reads, and the condition of its sort key."""
    partition: Value | None = None
    in_range: Callable[[ItemValues, Names, ItemValues], bool] = _everywhere
    for path, sign, placeholders, holds in clauses:
        name = resolve(path, page.names)
        for placeholder in placeholders:
            _check_key_value(name, page.values[placeholder], _MAX_PARTITION_KEY_BYTES)
        if name == page.key.partition and sign == "=" and partition is None:
            partition = page.values[placeholders[0]]
        elif name == page.key.sort and sign != "IN" and in_range is _everywhere:
            in_range = holds
        else:
            raise RefusedError(f"Query key condition not supported: {name}")
    if partition is None:
        raise RefusedError(f"Query condition missed key schema element: {page.key.partition}")
    return partition, in_range


def _everywhere(_item: ItemValues, _names: Names, _values: ItemValues) -> bool:
    return True


def _full_key(table: TableSchema, given: Mapping[str, Value]) -> Key:
    """The key of an item, from exactly its key attributes."""
    if len(given) != len(table.key.names):
        raise RefusedError("The provided key element does not match the schema")
    return _key(table, given)


def _key(table: TableSchema, given: Mapping[str, Value]) -> Key:
    """The key of an item, from all its attributes."""
    partition = _key_text(table.key.partition, given, _MAX_PARTITION_KEY_BYTES)
    if table.key.sort is None:
        return (partition,)
    return (partition, _key_text(table.key.sort, given, _MAX_SORT_KEY_BYTES))


def _key_text(name: str, given: Mapping[str, Value], limit: int) -> str:
    if name not in given:
        raise RefusedError("The provided key element does not match the schema")
    value = canonical(given[name])
    _check_key_value(name, value, limit)
    return str(value["S"])


def _key_attributes(table: TableSchema, key: Key) -> Item:
    return Item({name: {"S": text} for name, text in zip(table.key.names, key, strict=True)})


def _check_key_value(name: str, value: Value, limit: int) -> None:
    text = value.get("S")
    if text is None:
        raise RefusedError(f"One or more parameter values were invalid: Type mismatch for {name}")
    if not text:
        raise RefusedError(f"The key attribute {name} cannot contain an empty string value")
    if len(text) * _MAX_UTF8_BYTES > limit and size(value) > limit:
        raise RefusedError(f"The key attribute {name} exceeds {limit} bytes")


def _check_index_keys(table: TableSchema, item: Item) -> None:
    for index in table.indexes:
        key = index.key
        if key.partition in item:
            _check_key_value(key.partition, item[key.partition], _MAX_PARTITION_KEY_BYTES)
        if key.sort is not None and key.sort in item:
            _check_key_value(key.sort, item[key.sort], _MAX_SORT_KEY_BYTES)


def _check_size(item: Item) -> None:
    if item.size > MAX_ITEM_BYTES:
        raise RefusedError("Item size has exceeded the maximum allowed size")


def _size(item: Item | None) -> int:
    return 0 if item is None else item.size
