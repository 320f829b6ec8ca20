"""A whole deployment without AWS: the shipped services over ports that a test can look into."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol

from oncely.contract import AnyContract
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.writes import BusinessWrite
from oncely.enqueue.enqueuer import Enqueuer
from oncely.jobs import CONTRACTS
from oncely.operate.job_queries import JobQueries
from oncely.operate.repairer import Repairer
from oncely.ports import BusinessTable, JobStore, MessageSender, Notifier, TableGuard, TableOpen
from oncely.providers.interfaces import Crm, Mailer, PaymentProvider
from oncely.publish.publisher import EndedJobPublisher
from oncely.reconcile.reconciler import Reconciler, Resolution
from oncely.registry import ContractRegistry
from oncely.run.outcomes import RunOutcome
from oncely.run.review_alerts import ReviewAlerter
from oncely.run.run_job import JobRunner
from oncely.testing.memory import (
    MemoryDueIndex,
    MemoryFinishedJobs,
    MemoryJobIndex,
    MemoryJobStore,
    MemoryTableGuard,
    MemoryUniqueWindows,
)
from tests.support.crm import FakeCrm
from tests.support.fakes import (
    FakeBus,
    FakeClock,
    FakeMessageSender,
    FakeNotifier,
    SequentialTokens,
)
from tests.support.mail import FakeMailer
from tests.support.orders import order_row
from tests.support.payments import FakePayments

ROW_RETENTION = timedelta(days=90)


class BusinessRows(Protocol):
    """Business rows of any engine."""

    def put(self, table: str, key: Mapping[str, str], row: Mapping[str, object]) -> None: ...

    def get(self, table: str, key: Mapping[str, str]) -> Mapping[str, object] | None: ...

    def query_index(
        self,
        table: str,
        index: str,
        *,
        partitions: tuple[str, Sequence[str]],
        max_sort_key: tuple[str, str],
    ) -> Iterable[Mapping[str, object]]: ...

    def update(self, write: BusinessWrite) -> bool: ...


@dataclass(frozen=True)
class _Table:
    rows: BusinessRows
    name: str

    def get(self, key: Mapping[str, str]) -> Mapping[str, object] | None:
        return self.rows.get(self.name, key)

    def query_index(
        self, index: str, *, partitions: tuple[str, Sequence[str]], max_sort_key: tuple[str, str]
    ) -> Iterator[Mapping[str, object]]:
        found = self.rows.query_index(
            self.name, index, partitions=partitions, max_sort_key=max_sort_key
        )
        return iter(found)

    def update(self, write: BusinessWrite) -> bool:
        return self.rows.update(write)


@dataclass(frozen=True, kw_only=True)
class FakeDependencies:
    """What contracts are built from, over the ports of one world."""

    store: JobStore
    rows: BusinessRows
    provider: PaymentProvider
    queue: MessageSender
    contacts: Crm
    mail: Mailer | None

    def table(self, name: str) -> BusinessTable:
        return _Table(self.rows, name)

    def job_store(self) -> JobStore:
        return self.store

    def secret(self, name: str) -> str:
        return f"secret of {name}"

    def message_sender(self, queue: str) -> MessageSender:
        return self.queue

    def payments(self) -> PaymentProvider:
        return self.provider

    def crm(self) -> Crm:
        return self.contacts

    def mailer(self) -> Mailer | None:
        return self.mail


def _memory() -> MemoryJobStore:
    return MemoryJobStore()


@dataclass(kw_only=True)
class InMemoryStack:
    """Orders, jobs, a provider, and the services between them."""

    store: Any = field(default_factory=_memory)
    rows: BusinessRows | None = None
    payments: Any = field(default_factory=FakePayments)
    crm: Any = field(default_factory=FakeCrm)
    mail: Any = field(default_factory=FakeMailer)
    bus: FakeBus = field(default_factory=FakeBus)
    clock: FakeClock = field(default_factory=FakeClock)
    alerts: FakeNotifier = field(default_factory=FakeNotifier)
    outbox: FakeMessageSender = field(default_factory=FakeMessageSender)
    contracts: tuple[type[AnyContract], ...] = CONTRACTS
    tokens: SequentialTokens = field(default_factory=SequentialTokens)
    deployment: str | None = None  # the identity that rows and provider keys carry
    guard: TableGuard | None = None  # of a test that closes the table; else it is open

    def __post_init__(self) -> None:
        if self.rows is None:
            self.rows = self.store.business_rows

    @property
    def dependencies(self) -> FakeDependencies:
        assert self.rows is not None
        return FakeDependencies(
            store=self.store,
            rows=self.rows,
            provider=self.payments,
            queue=self.outbox,
            contacts=self.crm,
            mail=self.mail,
        )

    @property
    def table_guard(self) -> TableGuard:
        return self.guard or MemoryTableGuard(TableOpen(deployment=self.deployment))

    @property
    def registry(self) -> ContractRegistry:
        return ContractRegistry(self.contracts)

    def runner(
        self, *, store: JobStore | None = None, provider: PaymentProvider | None = None
    ) -> JobRunner:
        """A worker; with ports of its own, such as ones that die."""
        store = store or self.store
        tools = replace(self.dependencies, store=store, provider=provider or self.payments)
        alerts: Notifier = self.alerts
        return JobRunner(
            registry=self.registry,
            dependencies=tools,
            store=store,
            notifier=alerts,
            clock=self.clock,
            new_token=self.tokens,
            jitter=lambda: 0.0,
            stack="Oncely-test",
            guard=self.table_guard,
            row_retention=ROW_RETENTION,
        )

    def run(
        self,
        message: Mapping[str, object] | str,
        *,
        seconds_left: float = 60,
        runner: JobRunner | None = None,
    ) -> RunOutcome:
        """Deliver a message to a worker that has this much time."""
        body = message if isinstance(message, str) else json.dumps(message)
        deadline = self.clock.now() + timedelta(seconds=seconds_left)
        return (runner or self.runner()).run(body, deadline=deadline)

    def publisher(self, *, store: JobStore | None = None) -> EndedJobPublisher:
        """What follows an end."""
        return EndedJobPublisher(
            registry=self.registry,
            dependencies=self.dependencies,
            store=store or self.store,
            event_bus=self.bus,
            sender_for_queue=lambda _queue: self.outbox,
            clock=self.clock,
            row_retention=ROW_RETENTION,
        )

    def reconciler(self) -> Reconciler:
        """The reconciler over this world's ports."""
        return Reconciler(
            registry=self.registry,
            dependencies=self.dependencies,
            store=self.store,
            clock=self.clock,
            jitter=lambda: 0.0,
            sender_for_queue=lambda _queue: self.outbox,
            publisher=self.publisher(),
            guard=self.table_guard,
        )

    def enqueuer(self) -> Enqueuer:
        """The producer's helper, on a memory store."""
        return Enqueuer(
            registry=self.registry,
            store=self.store,
            windows=MemoryUniqueWindows(self.store),
            sender_for_queue=lambda _queue: self.outbox,
            clock=self.clock,
            new_token=self.tokens,
        )

    def inspector(self) -> JobQueries:
        """What people read with, on a memory store."""
        return JobQueries(
            registry=self.registry,
            store=self.store,
            job_index=MemoryJobIndex(self.store),
            due_index=MemoryDueIndex(self.store),
            finished_jobs=MemoryFinishedJobs(self.store),
            clock=self.clock,
        )

    def repairer(self) -> Repairer:
        """What people repair with, on a memory store."""
        return Repairer(reconciler=self.reconciler(), enqueuer=self.enqueuer())

    def reconcile(self, key: JobKey | str, *, dry_run: bool = False) -> Resolution:
        """One item of a sweep, with the branch that the state machine takes."""
        done = self.reconciler().resolve(JobKey(key), dry_run=dry_run)
        if done.needs_alert:
            self.alerter().alert_if_due(done.key)
        return done

    def alerter(self, *, store: JobStore | None = None) -> ReviewAlerter:
        """What tells a person of a review."""
        return ReviewAlerter(
            store=store or self.store,
            notifier=self.alerts,
            clock=self.clock,
            actor="reconciler",
            stack="Oncely-test",
        )

    def run_until_idle(self, key: JobKey | str, *, steps: int = 30) -> Job:
        """Let time pass, reconcile and deliver what is sent, until the job rests."""
        for _ in range(steps):
            job = self.job(key)
            if job.ended or job.due_at is None:
                return job
            self.clock.time = max(self.clock.time, job.due_at)
            self.reconcile(key)
            while self.outbox.sent:
                self.run(self.outbox.sent.pop(0))
        return self.job(key)

    def job(self, key: JobKey | str) -> Job:
        found = self.store.get(JobKey(key))
        assert isinstance(found, Job), f"there is no row of {key}"
        return found

    def add_order(self, order_id: str = "18452", **changes: object) -> None:
        """An order that can be charged."""
        self.dependencies.rows.put("orders", {"order_id": order_id}, order_row(**changes))

    def order(self, order_id: str = "18452") -> Mapping[str, object]:
        row = self.dependencies.rows.get("orders", {"order_id": order_id})
        assert row is not None, f"there is no order {order_id}"
        return row


def charge_message(order_id: str = "18452", **more: object) -> dict[str, object]:
    """A payment.charge message."""
    return {"job": "payment.charge", "v": 1, "order_id": order_id, **more}
