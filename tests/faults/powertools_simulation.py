"""Workers that run the Powertools job in the same simulation, under the same faults."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final, NoReturn, TypeVar

import pytest
from aws_lambda_powertools.utilities.idempotency import base
from aws_lambda_powertools.utilities.idempotency.persistence import base as persistence
from aws_lambda_powertools.utilities.idempotency.persistence import datarecord, dynamodb
from botocore.exceptions import ClientError, ReadTimeoutError
from moto.dynamodb.comparisons import get_filter_expression
from moto.dynamodb.models.dynamo_type import DynamoType, Item

from oncely.ports import Clock
from oncely.testing.base_simulation import END_FAULTS, BaseSimulation
from oncely.testing.in_memory_queue import QueuedMessage
from oncely.testing.interception import (
    READ_FAULTS,
    WRITE_FAULTS,
    InterceptedBusinessTable,
    InterceptedClock,
    Interceptor,
)
from oncely.testing.memory import MemoryJobStore
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import Scheduler
from oncely.testing.simulated_services import SETTINGS
from tests.faults.powertools_job import ChargeFunction, Variant
from tests.faults.violation_kinds import ViolationKind, find_violations

_T = TypeVar("_T")
# The modules of Powertools that read the clock.
_TIME_MODULES: Final = (base, persistence, datarecord, dynamodb)

ROW_RETENTION = timedelta(days=SETTINGS.retention_days or 0)


@contextmanager
def simulated_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in _TIME_MODULES:
            patch.setattr(module, "dt", _TIME)
        yield


def _now() -> datetime:
    clock = PowertoolsSimulation.clock
    assert clock is not None, "a world is being explored"
    return clock.now()


_TIME: Final = SimpleNamespace(
    **{**vars(dt), "datetime": SimpleNamespace(now=_now, fromtimestamp=None)}
)


@dataclass
class InterceptedDynamo:
    """DynamoDB's client for one table: its conditions are evaluated as they are written."""

    points: Interceptor
    items: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put_item(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401  # the SDK's own
        return self._write("put_item", lambda: self._put(request))

    def update_item(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401  # the SDK's own
        return self._write("update_item", lambda: self._update(request))

    def delete_item(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401  # the SDK's own
        return self._write("delete_item", lambda: self._delete(request))

    def get_item(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401  # the SDK's own
        def get() -> dict[str, Any]:
            item = self.items.get(_key(request["Key"]))
            return {} if item is None else {"Item": item}

        return self.points.call("dynamodb.get_item", READ_FAULTS, get, _connection_lost)

    def _write(self, name: str, perform: Callable[[], _T]) -> _T:
        return self.points.call(f"dynamodb.{name}", WRITE_FAULTS, perform, _connection_lost)

    def _put(self, request: Mapping[str, Any]) -> dict[str, Any]:
        key = _key(request["Item"])
        self._check(self.items.get(key), request)
        self.items[key] = request["Item"]
        return {}

    def _update(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Like DynamoDB, it creates a missing item."""
        item = self.items.setdefault(_key(request["Key"]), dict(request["Key"]))
        sets = request["UpdateExpression"].removeprefix("SET ").split(", ")
        for name, value in (one.split(" = ") for one in sets):
            attribute = request["ExpressionAttributeNames"][name]
            item[attribute] = request["ExpressionAttributeValues"][value]
        return {}

    def _delete(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.items.pop(_key(request["Key"]), None)
        return {}

    def _check(self, item: dict[str, Any] | None, request: Mapping[str, Any]) -> None:
        condition = _condition(
            request["ConditionExpression"],
            tuple(request["ExpressionAttributeNames"].items()),
            tuple(
                (name, *one.items()) for name, one in request["ExpressionAttributeValues"].items()
            ),
        )
        if not condition.expr(Item(DynamoType({"S": "key"}), None, item or {})):
            refused: Any = {"Error": {"Code": "ConditionalCheckFailedException"}, "Item": item}
            raise ClientError(refused, "PutItem")


@lru_cache(maxsize=10_000)
def _condition(expression: str, names: tuple[tuple[str, str], ...], values: tuple[Any, ...]) -> Any:  # noqa: ANN401  # moto's own
    """Parsed once for each time: the simulated clock rarely advances."""
    return get_filter_expression(
        expression, dict(names), {name: dict(held) for name, *held in values}
    )


def _key(item: Mapping[str, Any]) -> str:
    return str(item["id"]["S"])


def _connection_lost() -> NoReturn:
    raise ReadTimeoutError(endpoint_url="dynamodb")


@dataclass
class _Invocation:
    aws_request_id: str
    deadline: datetime
    clock: Clock
    function_name: str = "charge"

    def get_remaining_time_in_millis(self) -> int:
        return int((self.deadline - self.clock.now()) / timedelta(milliseconds=1))


class PowertoolsSimulation(BaseSimulation):
    clock: Clock | None = None  # of the world that is explored now

    def __init__(self, scenario: Scenario, schedule: Scheduler, *, way: Variant) -> None:
        super().__init__(scenario, schedule)
        self.variant = way
        self.table = InterceptedDynamo(self.interceptor)
        self.dead_lettered: list[str] = []
        self.answers: list[Mapping[str, Any]] = []
        PowertoolsSimulation.clock = InterceptedClock(self.interceptor)

    def process(self, message: QueuedMessage, deadline: datetime) -> None:
        assert self.clock is not None
        name = self.schedule.current.name if self.schedule.current else ""
        answers: list[Mapping[str, Any]] = []
        function = ChargeFunction(
            variant=self.variant,
            client=self.table,
            orders=InterceptedBusinessTable(self.interceptor, MemoryJobStore(self.rows), "orders"),
            payments=self.intercepted_providers["stripe"],  # type: ignore[arg-type]  # it stands for any provider
            record_ttl=ROW_RETENTION,
            on_reply=answers.append,
        )
        record = {"messageId": str(message.number), "body": message.body, "eventSource": "aws:sqs"}
        response = function.handle({"Records": [record]}, _Invocation(name, deadline, self.clock))
        self.schedule.log("  answer:", response, answers)
        self.schedule.intercept("end", END_FAULTS)
        self.answers += answers
        self.interceptor.mutations += 1
        if not response["batchItemFailures"]:
            self.queue.remove(message)

    def dead_letter(self, message: QueuedMessage) -> None:
        """Powertools does not read dead letters: an operator would have to."""
        self.dead_lettered.append(message.body)
        self.queue.remove(message)

    def expire(self) -> None:
        """Check the result of the deliveries, then expire all records."""
        self.problems += self._violation_kinds()
        self.schedule.advance_to(self.schedule.now + ROW_RETENTION + timedelta(days=2))
        self.schedule.log("the idempotency record expires; the message is replayed")
        self.table.items.clear()

    def shared_state(self) -> object:
        return (self.table.items, self.dead_lettered, self.answers)

    def full_state(self) -> object:
        return (super().full_state(), [letter.number for letter in self.queue.messages])

    def violations(self) -> list[str]:
        return list(dict.fromkeys([*self.problems, *self._violation_kinds()]))

    def _violation_kinds(self) -> list[ViolationKind]:
        # Powertools sends no alerts.
        return list(
            find_violations(self, self.answers, escalated=False, lost=bool(self.dead_lettered))
        )

    def final_statuses(self) -> Iterator[str]:
        yield str(next(iter(self.rows.rows.values())).get("status"))

    def describe(self) -> Iterator[str]:
        for (table, key), row in self.rows.rows.items():
            yield f"\n{table} {' '.join(key)}: {row}"
        yield f"charges: {self.providers['stripe'].charges}"
