"""The two that are compared, each over one local AWS: both work batches of the smallest job."""

import itertools
import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import ModuleType
from typing import Any, Final, Protocol

from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from infra.local.engine import Engine
from oncely.adapters.system import SystemClock, new_token, spread
from oncely.contract import Call
from oncely.domain.answers import Answer
from oncely.services.deadline import Deadline
from oncely.services.work_batch import BatchWorker
from tests.integration.ping import Ping, ping
from tests.support.dynamo import Dynamo
from tests.support.fakes import FakeInbox
from tests.support.worker import FakeContext, delivery
from tests.support.world import World

AT_ONCE: Final = 10  # the setting that ships
_numbers = itertools.count(1)


def fresh(number: int) -> list[str]:
    """Messages of jobs that nobody has seen before."""
    return [json.dumps(ping(next(_numbers))) for _ in range(number)]


@dataclass(frozen=True)
class Recorded:
    """One AWS call as it was made: the client, the method and what it was asked."""

    client: Any
    method: str
    asked: dict[str, Any]


class Contender(Protocol):
    """Works batches of pings."""

    @property
    def clients(self) -> Sequence[Any]:
        """The AWS clients that it uses; its DynamoDB's is the first."""

    @property
    def bars(self) -> list[tuple[float, float]]:
        """When each call to the provider began and ended."""

    def work(self, bodies: Sequence[str], *, latency: float = 0.0) -> None:
        """Work one batch with a provider that takes this long."""


@dataclass
class Oncely:
    """The shipped batch worker, and store, around a contract of one line."""

    dynamo: Dynamo
    at_once: int = AT_ONCE
    bars: list[tuple[float, float]] = field(default_factory=list)
    latency: float = 0.0

    def __post_init__(self) -> None:
        outer = self

        class Timed(Ping):
            def act(self, call: Call[None]) -> Answer:
                began = time.perf_counter()
                time.sleep(outer.latency)
                outer.bars.append((began, time.perf_counter()))
                return super().act(call)

        clock: Any = SystemClock()
        world = World(
            store=self.dynamo.store(), rows=self.dynamo.rows(), clock=clock, contracts=(Timed,)
        )
        self._clock = clock
        self._worker = BatchWorker(
            runner=replace(world.runner(), new_token=new_token, spread=spread),
            inbox=FakeInbox(),
            clock=clock,
            spread=spread,
            side_by_side=self.at_once,
            max_receives=5,
        )

    @property
    def clients(self) -> Sequence[Any]:
        return (self.dynamo.client,)

    def work(self, bodies: Sequence[str], *, latency: float = 0.0) -> None:
        self.latency = latency
        deadline = Deadline(self._clock.now() + timedelta(seconds=60), self._clock)
        self._worker.work([delivery(body) for body in bodies], deadline=deadline)


@dataclass
class Powertools:
    """The documented worker, one record after the other as its batch processor does."""

    worker: ModuleType

    @property
    def clients(self) -> Sequence[Any]:
        return (self.worker.store.client,)

    @property
    def bars(self) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = self.worker.bars
        return found

    def work(self, bodies: Sequence[str], *, latency: float = 0.0) -> None:
        self.worker.latency[0] = latency
        event = {"Records": [_record(body) for body in bodies]}
        # A batch of nothing but failures raises, so that Lambda keeps all of it.
        with suppress(BatchProcessingError):
            self.worker.lambda_handler(event, FakeContext())


def _record(body: str) -> dict[str, Any]:
    return {"messageId": uuid.uuid4().hex, "receiptHandle": "r", "body": body, "attributes": {}}


@contextmanager
def contenders(engine: Engine) -> Iterator[tuple[Dynamo, Oncely, Oncely, Powertools]]:
    """Oncely as it ships, Oncely one job after the other, and Powertools."""
    os.environ.update(engine.environment())
    dynamo = Dynamo(engine.url)
    one_by_one = Oncely(dynamo, at_once=1)
    yield dynamo, Oncely(dynamo), one_by_one, Powertools(_powertools(dynamo))
    dynamo.close()


def _powertools(dynamo: Dynamo) -> ModuleType:
    table = f"idempotency-{uuid.uuid4().hex}"
    dynamo.admin.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    os.environ["IDEMPOTENCY_TABLE"] = table
    # It makes its client when it is imported, so the engine must be known by then.
    from tests.bench import powertools_worker  # noqa: PLC0415

    return powertools_worker
