"""Workers that run the Powertools job in the same simulation, under the same faults."""

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aws_lambda_powertools.utilities.idempotency import base
from aws_lambda_powertools.utilities.idempotency.persistence import base as persistence
from aws_lambda_powertools.utilities.idempotency.persistence import datarecord, dynamodb

from oncely.aws.business_tables import BusinessTable
from oncely.contracts.table_schema import KeySchema, TableSchema
from oncely.providers.stripe.payments import stripe_client
from oncely.testing.base_simulation import END_FAULTS, BaseSimulation
from oncely.testing.in_process import base_url
from oncely.testing.interception import Interceptor
from oncely.testing.memory_aws.services import SqsMessage
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import Scheduler
from tests.faults.powertools_job import TABLE, ChargeFunction, Variant
from tests.faults.violation_kinds import ViolationKind, charge_ids, find_violations

# The modules of Powertools that read the clock.
_TIME_MODULES: Final = (base, persistence, datarecord, dynamodb)

ROW_RETENTION = timedelta(days=90)


@contextmanager
def simulated_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in _TIME_MODULES:
            patch.setattr(module, "dt", _TIME)
        yield


def _now() -> datetime:
    interceptor = PowertoolsSimulation.explored
    assert interceptor is not None, "a world is being explored"
    return interceptor.now()


_TIME: Final = SimpleNamespace(
    **{**vars(dt), "datetime": SimpleNamespace(now=_now, fromtimestamp=None)}
)


@dataclass
class _Invocation:
    aws_request_id: str
    deadline: datetime
    interceptor: Interceptor
    function_name: str = "charge"

    def get_remaining_time_in_millis(self) -> int:
        return int((self.deadline - self.interceptor.now()) / timedelta(milliseconds=1))


class PowertoolsSimulation(BaseSimulation):
    explored: Interceptor | None = None  # of the world that is explored now

    def __init__(self, scenario: Scenario, schedule: Scheduler, *, way: Variant) -> None:
        super().__init__(scenario, schedule)
        self.variant = way
        key = KeySchema(partition="id")
        self.aws.dynamodb.add_table(TABLE, TableSchema(name=TABLE, key=key))
        self.client: Any = self.aws.dynamodb
        self.dead_lettered: list[str] = []
        self.answers: list[Mapping[str, Any]] = []
        model = self.sandbox.providers["stripe"]
        self.payments = stripe_client(
            model.api_key, api_base=base_url("stripe"), network=self.network
        )
        PowertoolsSimulation.explored = self.interceptor

    def process(self, message: SqsMessage, deadline: datetime) -> None:
        name = self.schedule.current.name if self.schedule.current else ""
        answers: list[Mapping[str, Any]] = []
        function = ChargeFunction(
            variant=self.variant,
            client=self.client,
            orders=BusinessTable(self.client, "orders", "orders"),
            payments=self.payments,
            record_ttl=ROW_RETENTION,
            on_reply=answers.append,
        )
        record = {"messageId": message.message_id, "body": message.body, "eventSource": "aws:sqs"}
        response = function.handle(
            {"Records": [record]}, _Invocation(name, deadline, self.interceptor)
        )
        self.schedule.log("  answer:", response, answers)
        self.schedule.intercept("end", END_FAULTS)
        self.answers += answers
        self.interceptor.mutations += 1
        if not response["batchItemFailures"]:
            self.remove(message)

    def dead_letter(self, message: SqsMessage) -> None:
        """Powertools does not read dead letters: an operator would have to."""
        self.dead_lettered.append(message.body)
        self.remove(message)

    def expire(self) -> None:
        """Check the result of the deliveries, then expire all records."""
        self.problems += self._violation_kinds()
        self.schedule.advance_to(self.schedule.now + ROW_RETENTION + timedelta(days=2))
        self.schedule.log("the idempotency record expires; the message is replayed")
        self.aws.dynamodb.tables[TABLE].clear()

    def shared_state(self) -> object:
        return (self.dead_lettered, self.answers)

    def full_state(self) -> object:
        return (super().full_state(), [letter.message_id for letter in self.queue.messages])

    def violations(self) -> list[str]:
        return list(dict.fromkeys([*self.problems, *self._violation_kinds()]))

    def _violation_kinds(self) -> list[ViolationKind]:
        # Powertools sends no alerts.
        return list(
            find_violations(self, self.answers, escalated=False, lost=bool(self.dead_lettered))
        )

    def final_statuses(self) -> Iterator[str]:
        yield str(next(row for table, row in self.rows.all() if table == "orders").get("status"))

    def describe(self) -> Iterator[str]:
        for table, row in self.rows.all():
            yield f"\n{table}: {row}"
        yield f"charges: {charge_ids(self)}"
