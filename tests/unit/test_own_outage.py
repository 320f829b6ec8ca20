"""An outage of our own tables, with a simulated clock: no dead letters, and every job ends soon."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from oncely.domain.effect_outcomes import EffectOutcome
from oncely.domain.errors import UnavailableError
from oncely.domain.lifecycle import Status
from oncely.domain.table_identity import TableFacts, TableIdentity
from oncely.providers.fake_payments import FakePayments
from oncely.reconcile.find_due_work import SweepRequest
from oncely.run.process_batch import (
    MIN_POSTPONE_TIME,
    BatchProcessor,
    Delivery,
    postpone_delay,
)
from oncely.run.table_guard import CheckedTable
from oncely.settings import Settings
from oncely.testing.in_memory_queue import InMemoryQueue
from oncely.testing.memory import (
    MemoryBusinessRows,
    MemoryDueIndex,
    MemoryJobStore,
    MemorySweepLeases,
)
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.worker import BatchHarness, make_delivery

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


class FailingTable:
    """A store whose every call fails during the outage."""

    def __init__(self, target: Any, outage: Outage) -> None:  # noqa: ANN401  # any store
        self._target, self._outage = target, outage

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # what the store has
        if self._outage.is_on:
            raise UnavailableError("no response")
        return getattr(self._target, name)


@dataclass(frozen=True)
class FailingInspector:
    outage: Outage

    def identity(self) -> TableIdentity:
        if self.outage.is_on:
            raise UnavailableError("no response")
        return TableIdentity(deployment="dev", table_id="T1")

    def facts(self) -> TableFacts:
        return TableFacts(name="jobs", table_id="T1", has_stream=True)

    def with_protection(self, facts: TableFacts) -> TableFacts:
        return facts


@dataclass
class PaymentsBeforeOutage(FakePayments):
    """The first charge succeeds, and the tables fail before it can be recorded."""

    outage: Outage | None = None

    def execute(self, *given: Any, **more: Any) -> EffectOutcome:  # noqa: ANN401  # as it is
        outcome = super().execute(*given, **more)
        if self.outage:
            self.outage.begin()
        return outcome


@dataclass
class Deployment:
    """Workers and sweeps with one queue. Each second, all visible messages are received."""

    world: InMemoryStack
    outage: Outage
    queue: InMemoryQueue = field(
        default_factory=lambda: InMemoryQueue(max_receive_count=MAX_RECEIVES)
    )
    leases: Any = field(default_factory=MemorySweepLeases)
    dead_letters: int = 0
    sweeps: int = 0

    def __post_init__(self) -> None:
        store = FailingTable(self.world.store, self.outage)
        app = self.world.app(store=store)
        self.runner = app.job_runner
        self.resolver = app.group_resolver
        self.finder = replace(
            app.due_work_finder,
            index=FailingTable(MemoryDueIndex(self.world.store), self.outage),
            leases=FailingTable(self.leases, self.outage),
        )

    def redeliver_after(self, receipt: str, *, delay: timedelta) -> None:
        (message,) = (one for one in self.queue.messages if str(one.number) == receipt)
        message.visible_at = self.world.clock.now() + delay

    def reject(
        self, body: str, *, reason: str, message_id: str, job_key: str | None = None
    ) -> None:
        pytest.fail(f"{message_id} was rejected, {reason}: {body}")

    def second(self) -> None:
        now = self.world.clock.now()
        for message in [one for one in self.queue.messages if one.visible_at <= now]:
            message.receive(now)
            if message.is_dead_letter:
                self.dead_letters += 1
                self.queue.remove(message)
                continue
            delivery = Delivery(
                message_id=str(message.number),
                body=message.body,
                receipt=str(message.number),
                receive_count=message.receive_count,
            )
            (processed,) = self._worker().process(
                [delivery], deadline=now + timedelta(seconds=WORKER_SECONDS)
            )
            if processed.acked:
                self.queue.remove(message)
        if (now - START).total_seconds() % SWEEP_EVERY_SECONDS == 0:
            self._sweep(now)
        while self.world.outbox.sent:
            self.queue.send(self.world.outbox.sent.pop(), at=now)
        self.world.clock.advance(seconds=1)

    def _worker(self) -> BatchProcessor:
        return BatchProcessor(
            runner=self.runner,
            message_source=self,
            reject_queue=self,
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
    store, payments = MemoryJobStore(), PaymentsBeforeOutage()
    world = InMemoryStack(store=store, payments=payments)
    payments.outage = outage = Outage(world.clock.now)
    world.guard = CheckedTable(FailingInspector(outage), world.clock)
    world.rows = FailingTable(store.business_rows, outage)
    return Deployment(world, outage)


def test_jobs_end_within_2_minutes_of_outage_without_dead_letters(deployment: Deployment) -> None:
    world, seconds = deployment.world, int((OUTAGE + RECOVERY).total_seconds())
    orders = [str(number) for number in range(0, seconds - 120, ORDER_EVERY_SECONDS)]
    rows: MemoryBusinessRows = world.store.business_rows
    world.add_order("0")
    order: Mapping[str, object] = rows.get("orders", {"order_id": "0"}) or {}

    for second in range(seconds):
        if str(second) in orders:
            rows.put("orders", {"order_id": str(second)}, order)
            deployment.queue.send(json.dumps(charge_message(str(second))), at=world.clock.now())
        deployment.second()

    assert deployment.outage.until == START + OUTAGE
    assert deployment.dead_letters == 0
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
    harness.world.rows = FailingTable(None, Outage(harness.world.clock.now))
    [one] = harness.process(make_delivery(charge_message()))
    assert not one.acked
    assert harness.inbox.redelivered[one.delivery.receipt] <= timedelta(seconds=5)


def test_message_is_received_again_within_a_tenth_of_outage() -> None:
    waited = timedelta(0)
    for receives in range(1, MAX_RECEIVES):
        delay = postpone_delay(receives, MAX_RECEIVES)
        assert delay <= waited * 0.11 + timedelta(seconds=5)
        waited += delay
