"""The two candidates, each on its own local AWS: both process batches of the smallest job."""

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

from oncely.core.effect_outcomes import EffectOutcome
from oncely.core.job_type import Call
from oncely.ports import SystemClock, new_owner_token, random_jitter
from oncely_local.engine import Engine, aws_environment
from tests.integration.ping import Ping, ping_message
from tests.support.dynamo import DynamoFixture
from tests.support.fakes import FakeMessageSource
from tests.support.in_memory_stack import InMemoryStack
from tests.support.worker import FakeContext, make_delivery

BATCH_CONCURRENCY: Final = 10  # the setting that ships
_numbers = itertools.count(1)


def new_bodies(number: int) -> list[str]:
    return [json.dumps(ping_message(next(_numbers))) for _ in range(number)]


class Candidate(Protocol):
    @property
    def clients(self) -> Sequence[Any]:
        """The AWS clients that it uses, DynamoDB first."""

    @property
    def bars(self) -> list[tuple[float, float]]:
        """When each call to the provider began and ended."""

    def work(self, bodies: Sequence[str], *, latency: float = 0.0) -> None:
        """Process one batch with a provider that takes this long."""


@dataclass
class OncelyCandidate:
    dynamo: DynamoFixture
    at_once: int = BATCH_CONCURRENCY
    bars: list[tuple[float, float]] = field(default_factory=list)
    latency: float = 0.0

    def __post_init__(self) -> None:
        outer = self

        class Timed(Ping):
            def execute(self, call: Call[None]) -> EffectOutcome:
                began = time.perf_counter()
                time.sleep(outer.latency)
                outer.bars.append((began, time.perf_counter()))
                return super().execute(call)

        clock: Any = SystemClock()
        world = InMemoryStack(
            store=self.dynamo.store(), rows=self.dynamo.rows(), clock=clock, contracts=(Timed,)
        )
        self._clock = clock
        inbox = FakeMessageSource()
        app = world.app(message_source=inbox, reject_queue=inbox, new_token=new_owner_token)
        worker = app.batch_processor
        self._worker = replace(
            worker,
            runner=replace(worker.runner, jitter=random_jitter),
            jitter=random_jitter,
            concurrency=self.at_once,
        )

    @property
    def clients(self) -> Sequence[Any]:
        return (self.dynamo.client,)

    def work(self, bodies: Sequence[str], *, latency: float = 0.0) -> None:
        self.latency = latency
        deadline = self._clock.now() + timedelta(seconds=60)
        self._worker.process([make_delivery(body) for body in bodies], deadline=deadline)


@dataclass
class Powertools:
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
        # A batch in which every message failed raises, so that Lambda keeps all of it.
        with suppress(BatchProcessingError):
            self.worker.lambda_handler(event, FakeContext())


def _record(body: str) -> dict[str, Any]:
    return {"messageId": uuid.uuid4().hex, "receiptHandle": "r", "body": body, "attributes": {}}


@contextmanager
def create_candidates(
    engine: Engine,
) -> Iterator[tuple[OncelyCandidate, OncelyCandidate, Powertools]]:
    os.environ.update(aws_environment(engine.url))
    dynamo = DynamoFixture(engine.url)
    yield (
        OncelyCandidate(dynamo),
        OncelyCandidate(dynamo, at_once=1),
        Powertools(_create_powertools(dynamo)),
    )
    dynamo.close()


def _create_powertools(dynamo: DynamoFixture) -> ModuleType:
    table = f"idempotency-{uuid.uuid4().hex}"
    dynamo.admin.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    os.environ["IDEMPOTENCY_TABLE"] = table
    # Importing it creates its client, so the engine's address must be set before.
    from tests.bench import powertools_worker  # noqa: PLC0415

    return powertools_worker
