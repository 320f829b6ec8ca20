"""An outage of our own tables, with a simulated clock: no dead letters, and every job ends soon."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, cast

import pytest
from botocore.exceptions import EndpointConnectionError

from oncely.contracts.settings import Settings
from oncely.core.effect_outcomes import EffectOutcome
from oncely.core.errors import UnavailableError
from oncely.core.lifecycle import Status
from oncely.core.table_guard import DynamoTableIdentity, TableGuard, TableIdentity
from oncely.operate.own_tables import JOBS
from oncely.reconcile.find_due_work import SweepRequest
from oncely.run.process_batch import (
    MIN_POSTPONE_TIME,
    BatchProcessor,
    Delivery,
    postpone_delay,
)
from oncely.testing.memory_aws.calls import AwsCall
from oncely.testing.memory_aws.services import MemoryQueue, SqsMessage
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.stripe_account import StripeAccount
from tests.support.worker import BatchHarness, make_delivery

T = TypeVar("T")

MAX_RECEIVES: Final = Settings().max_receive_count
OUTAGE: Final = timedelta(minutes=10)
RECOVERY: Final = timedelta(minutes=2)
ORDER_EVERY_SECONDS: Final = 10
SWEEP_EVERY_SECONDS: Final = 60
WORKER_SECONDS: Final = 120


@dataclass
class Outage:
    now: Callable[[], datetime]
    until: datetime | None = None

    def begin(self) -> None:
        self.until = self.until or self.now() + OUTAGE

    @property
    def is_on(self) -> bool:
        return self.until is not None and self.now() < self.until

    def intercept(self, call: AwsCall, perform: Callable[[], T]) -> T:
        """Refuse every call of DynamoDB during the outage."""
        if self.is_on and call.service == "dynamodb":
            raise EndpointConnectionError(endpoint_url="https://dynamodb")
        return perform()


class PaymentsBeforeOutage(StripeAccount):
    """The first charge succeeds, and the tables fail before it can be recorded."""

    outage: Outage | None = None

    def execute(self, *given: Any, **more: Any) -> EffectOutcome:  # noqa: ANN401  # as it is
        outcome: EffectOutcome = self.client.execute(*given, **more)
        if self.outage:
            self.outage.begin()
        return outcome


@dataclass
class Deployment:
    """Workers and sweeps with one queue. Each second, all visible messages are received."""

    world: InMemoryStack
    outage: Outage
    dead_letters: MemoryQueue = field(default_factory=MemoryQueue)
    sent: int = 0
    sweeps: int = 0

    def __post_init__(self) -> None:
        self.queue = MemoryQueue(max_receive_count=MAX_RECEIVES, dead_letters=self.dead_letters)
        self.world.aws.intercept = self.outage.intercept
        app = self.world.app()
        self.runner = app.job_runner
        self.resolver = app.group_resolver
        self.finder = app.due_work_finder
        self.leases = app.ports.sweep_leases

    def send(self, body: str) -> None:
        self.sent += 1
        now = self.world.clock.now()
        message = SqsMessage(str(self.sent), body, sent_at=now, visible_at=now)
        self.queue.messages.append(message)

    def redeliver_after(self, receipt: str, *, delay: timedelta) -> None:
        (message,) = (one for one in self.queue.messages if one.receipt == receipt)
        message.visible_at = self.world.clock.now() + delay

    def reject(
        self, body: str, *, reason: str, message_id: str, job_key: str | None = None
    ) -> None:
        pytest.fail(f"{message_id} was rejected, {reason}: {body}")

    def second(self) -> None:
        now = self.world.clock.now()
        for message in self.queue.receive(at=now, limit=len(self.queue.messages)):
            delivery = Delivery(
                message_id=message.message_id,
                body=message.body,
                receipt=message.receipt,
                receive_count=message.receive_count,
            )
            (processed,) = self._worker().process(
                [delivery], deadline=now + timedelta(seconds=WORKER_SECONDS)
            )
            if processed.acked:
                self.queue.delete(message.receipt)
        if (now - START).total_seconds() % SWEEP_EVERY_SECONDS == 0:
            self._sweep(now)
        while self.world.outbox.sent:
            self.send(self.world.outbox.sent.pop())
        self.world.clock.advance(seconds=1)

    def _worker(self) -> BatchProcessor:
        return BatchProcessor(
            runner=self.runner,
            message_source=cast("Any", self),
            reject_queue=cast("Any", self),
            clock=self.world.clock,
            jitter=lambda: 0.99,  # the longest delays
            concurrency=1,
            max_receive_count=MAX_RECEIVES,
        )

    def _sweep(self, now: datetime) -> None:
        self.sweeps += 1
        holder = f"sweep {self.sweeps}"
        try:
            found = self.finder.find(SweepRequest(), holder=holder)
            deadline = now + timedelta(seconds=60)
            list(self.resolver.resolve(found.items, deadline=deadline, concurrency=1))
            for shard in found.shards:
                self.leases.release(shard, holder=holder)
        except UnavailableError:
            return


@pytest.fixture
def deployment() -> Deployment:
    payments = PaymentsBeforeOutage()
    world = InMemoryStack(payments=payments)
    payments.outage = outage = Outage(world.clock.now)
    table = DynamoTableIdentity(world.store.client, JOBS)
    assert table.write(
        TableIdentity(deployment="dev", table_id=table.facts().table_id), replacing=None
    )
    world.guard = TableGuard(table, world.clock)
    return Deployment(world, outage)


def test_jobs_end_within_2_minutes_of_outage_without_dead_letters(deployment: Deployment) -> None:
    world, seconds = deployment.world, int((OUTAGE + RECOVERY).total_seconds())
    orders = [str(number) for number in range(0, seconds - 120, ORDER_EVERY_SECONDS)]
    world.add_order("0")
    order = world.order("0")

    for second in range(seconds):
        if str(second) in orders:
            world.rows.put("orders", {"order_id": str(second)}, {**order, "order_id": str(second)})
            deployment.send(json.dumps(charge_message(str(second))))
        deployment.second()

    assert deployment.outage.until == START + OUTAGE
    assert deployment.dead_letters.messages == []
    assert {job.status for job in world.store.jobs.values()} == {Status.FINISHED}
    assert {f"payment.charge:order_{one}" for one in orders} <= world.store.jobs.keys()
    assert len(world.payments.charges) == len(orders)
    assert world.alerts.sent == []


@pytest.mark.parametrize("max_receives", [2, 5, 10, 50, 1000])
def test_delays_grow_to_one_hour_together(max_receives: int) -> None:
    delays = [postpone_delay(receives, max_receives) for receives in range(1, max_receives)]
    assert delays == sorted(delays)
    assert sum(delays, timedelta(0)) >= MIN_POSTPONE_TIME
    assert postpone_delay(max_receives, max_receives) == delays[-1]


def test_failed_store_call_returns_message_after_seconds() -> None:
    harness = BatchHarness(world=InMemoryStack(), max_receives=MAX_RECEIVES)
    now = harness.world.clock.now
    harness.world.aws.intercept = Outage(now, until=now() + OUTAGE).intercept
    [one] = harness.process(make_delivery(charge_message()))
    assert not one.acked
    assert harness.inbox.redelivered[one.delivery.receipt] <= timedelta(seconds=5)


def test_message_is_received_again_within_a_tenth_of_outage() -> None:
    waited = timedelta(0)
    for receives in range(1, MAX_RECEIVES):
        delay = postpone_delay(receives, MAX_RECEIVES)
        assert delay <= waited * 0.11 + timedelta(seconds=5)
        waited += delay
