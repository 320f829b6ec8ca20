"""DynamoDB in memory beside a real engine: each request is sent to both, and compared."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn, TypeVar
from uuid import uuid4

from botocore.exceptions import ClientError

from oncely.testing.memory_aws.attribute_values import canonical
from oncely.testing.memory_aws.calls import AwsCall
from oncely.testing.memory_aws.dynamodb import MemoryDynamo
from tests.support.dynamo import DynamoFixture
from tests.support.fakes import START
from tests.support.table_schemas import TABLE_SCHEMAS

T = TypeVar("T")
NAME: Final = "twin"  # of the tables on both, so that a request is the same
TABLES: Final = {short: f"{short}-{NAME}" for short in TABLE_SCHEMAS}


COMPARED: Final[Counter[str]] = Counter()  # requests by operation


@dataclass
class Twin:
    """Both, with these tables empty."""

    engine: DynamoFixture
    tables: Sequence[str]
    memory: MemoryDynamo = field(init=False)
    # The engine remembers tokens from one test to the next.
    scope: str = field(default_factory=lambda: uuid4().hex[:20])

    def __post_init__(self) -> None:
        schemas = {TABLES[short]: schema for short, schema in TABLE_SCHEMAS.items()}
        self.memory = MemoryDynamo(schemas, now=lambda: START)
        for name in self.tables:
            for item in self._engine_rows(name):
                key = {part: item[part] for part in schemas[name].key.names}
                self.engine.admin.delete_item(TableName=name, Key=key)

    @property
    def client(self) -> Any:  # noqa: ANN401  # as boto3's client
        """A client for the adapters, which gets the answer in memory."""
        return self.memory.with_intercept(self.intercept)

    def intercept(self, call: AwsCall, perform: Callable[[], T]) -> T:
        del perform  # it would be sent without the scope of its token
        self.send(call.operation, call.request)
        result: T = self._result()
        return result

    def send(self, operation: str, request: Mapping[str, Any]) -> object:
        """The answer of both, or an AssertionError."""
        if "ClientRequestToken" in request:
            token = f"{request['ClientRequestToken'][:15]}-{self.scope}"
            request = {**request, "ClientRequestToken": token}
        ours, self._result = answer(getattr(self.memory, operation), request)
        theirs, _ = answer(getattr(self.engine.admin, operation), request)
        if operation == "execute_transaction":
            ours, theirs = _first_reason(ours), _first_reason(theirs)
        assert ours == theirs, f"{operation}({request}): {ours} in memory, {theirs}"
        COMPARED[operation] += 1
        return ours

    def check_rows(self) -> None:
        """Compare all items of both."""
        for name in self.tables:
            rows = self.memory.tables[name].values()
            assert _sorted(self._engine_rows(name)) == _sorted(rows), name

    def _engine_rows(self, table: str) -> list[Any]:
        return list(self.engine.admin.scan(TableName=table, ConsistentRead=True)["Items"])


def answer(
    call: Callable[..., Any], request: Mapping[str, Any]
) -> tuple[object, Callable[[], Any]]:
    """What must be equal of a response or an error, and a function that returns or raises it."""
    try:
        response = call(**request)
    except ClientError as error:
        return _error_shown(error), partial(_raise, error)
    return _shown(response), lambda: response


def _raise(error: Exception) -> NoReturn:
    raise error


def _error_shown(error: ClientError) -> object:
    response: Any = error.response
    reasons = [
        (one["Code"], _canonical(one.get("Item") or {}))
        for one in response.get("CancellationReasons", [])
    ]
    return response["Error"]["Code"], reasons, _canonical(response.get("Item") or {})


def _first_reason(found: Any) -> object:  # noqa: ANN401  # an answer
    """The first reason of a cancelled transaction: MiniStack runs no statement after it.

    DynamoDB names it as it does for `TransactWriteItems`; MiniStack adds `Exception`.
    """
    if "TransactionCanceledException" not in found:
        return found
    codes = [code.removesuffix("Exception") for code, _ in found[1]]
    place = next(number for number, code in enumerate(codes) if code != "None")
    return place, codes[place]


def _shown(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """A response without its metadata, and with items as values that can be compared."""
    found = {name: held for name, held in response.items() if name != "ResponseMetadata"}
    for name in ("Item", "Attributes", "LastEvaluatedKey"):
        if name in found:
            found[name] = _canonical(found[name])
    if "Items" in found:
        found["Items"] = [_canonical(item) for item in found["Items"]]
    if isinstance(found.get("Responses"), dict):
        found["Responses"] = {name: _sorted(rows) for name, rows in found["Responses"].items()}
    return found


def _sorted(items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(map(_canonical, items), key=str)


def _canonical(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: canonical(value) for name, value in sorted(item.items())}
