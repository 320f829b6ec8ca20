"""A whole deployment without AWS: the shipped services over ports that a test can look into."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from oncely.app import App
from oncely.contract import AnyContract
from oncely.domain.effect_outcomes import BusinessWrite
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.enqueue.enqueuer import Enqueuer
from oncely.jobs import CONTRACTS
from oncely.operate.job_queries import JobQueries
from oncely.operate.repairer import Repairer
from oncely.ports import (
    BusinessTable,
    Clock,
    EventBus,
    JobStore,
    MessageSender,
    Notifier,
    TableGuard,
    TableOpen,
)
from oncely.provider import AnyProvider, Provider
from oncely.providers.hubspot.fake import FakeCrm
from oncely.providers.interfaces import PaymentProvider
from oncely.providers.ses.fake import FakeMailer
from oncely.providers.stripe.fake import FakePayments
from oncely.publish.publisher import EndedJobPublisher
from oncely.reconcile.find_due_work import DueWorkFinder
from oncely.reconcile.reconciler import Reconciler, Resolution
from oncely.registry import ContractRegistry
from oncely.run.outcomes import RunOutcome
from oncely.run.review_alerts import ReviewAlerter
from oncely.run.run_job import JobRunner
from oncely.settings import Settings
from oncely.testing.memory import (
    MemoryDueIndex,
    MemoryFinishedJobs,
    MemoryJobIndex,
    MemoryJobStore,
    MemorySweepLeases,
    MemoryTableGuard,
    MemoryUniqueWindows,
)
from tests.support.fakes import (
    FakeBus,
    FakeClock,
    FakeMessageSender,
    FakeNotifier,
    SequentialTokens,
)
from tests.support.orders import order_row

ROW_RETENTION = timedelta(days=90)
SETTINGS = Settings(stack_name="Oncely-test", retention_days=90)
T = TypeVar("T")


class BusinessRows(Protocol):
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
class FakePorts:
    """The ports of one stack in memory; sweeps, sources and rejects are a test's own."""

    store: JobStore
    rows: BusinessRows
    clients: Mapping[str, Any]  # by plug-in name; None: not configured
    sender: MessageSender
    clock: Clock
    new_token: Callable[[], str]
    notifier: Notifier
    event_bus: EventBus
    table_guard: TableGuard
    job_index: Any = None
    due_index: Any = None
    finished_jobs: Any = None
    unique_windows: Any = None
    sweep_leases: Any = None
    sweeps: Any = None
    message_source: Any = None
    reject_queue: Any = None

    def jitter(self) -> float:
        return 0.0

    def preload(self, providers: tuple[AnyProvider, ...]) -> None:
        pass

    def table(self, name: str) -> BusinessTable:
        return _Table(self.rows, name)

    def job_store(self) -> JobStore:
        return self.store

    def secret(self, name: str) -> str:
        return f"secret of {name}"

    def message_sender(self, queue: str) -> MessageSender:
        return self.sender

    def provider(self, plugin: Provider[T, Any]) -> T:
        client: T = self.clients[plugin.name]
        return client

    def is_configured(self, plugin: AnyProvider) -> bool:
        return self.clients[plugin.name] is not None


@dataclass(kw_only=True)
class InMemoryStack:
    store: Any = field(default_factory=MemoryJobStore)
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
    def dependencies(self) -> FakePorts:
        return self.ports()

    def ports(
        self, *, store: JobStore | None = None, provider: PaymentProvider | None = None
    ) -> FakePorts:
        assert self.rows is not None
        return FakePorts(
            store=store or self.store,
            rows=self.rows,
            clients={"stripe": provider or self.payments, "hubspot": self.crm, "ses": self.mail},
            sender=self.outbox,
            clock=self.clock,
            new_token=self.tokens,
            notifier=self.alerts,
            event_bus=self.bus,
            table_guard=self.table_guard,
            job_index=MemoryJobIndex(self.store),
            due_index=MemoryDueIndex(self.store),
            finished_jobs=MemoryFinishedJobs(self.store),
            unique_windows=MemoryUniqueWindows(self.store),
            sweep_leases=MemorySweepLeases(),
        )

    def app(self, *, store: JobStore | None = None, provider: PaymentProvider | None = None) -> App:
        ports = self.ports(store=store, provider=provider)
        return App(SETTINGS, ContractRegistry(self.contracts), ports)

    @property
    def table_guard(self) -> TableGuard:
        return self.guard or MemoryTableGuard(TableOpen(deployment=self.deployment))

    @property
    def registry(self) -> ContractRegistry:
        return ContractRegistry(self.contracts)

    def runner(
        self, *, store: JobStore | None = None, provider: PaymentProvider | None = None
    ) -> JobRunner:
        return self.app(store=store, provider=provider).job_runner

    def run(
        self,
        message: Mapping[str, object] | str,
        *,
        seconds_left: float = 60,
        runner: JobRunner | None = None,
    ) -> RunOutcome:
        body = message if isinstance(message, str) else json.dumps(message)
        deadline = self.clock.now() + timedelta(seconds=seconds_left)
        return (runner or self.runner()).run(body, deadline=deadline)

    def publisher(self, *, store: JobStore | None = None) -> EndedJobPublisher:
        return self.app(store=store).publisher

    def reconciler(self) -> Reconciler:
        return self.app().reconciler

    def finder(self) -> DueWorkFinder:
        return self.app().due_work_finder

    def enqueuer(self) -> Enqueuer:
        return self.app().enqueuer

    def inspector(self) -> JobQueries:
        return self.app().job_queries

    def repairer(self) -> Repairer:
        return self.app().repairer

    def reconcile(self, key: JobKey | str, *, dry_run: bool = False) -> Resolution:
        done = self.reconciler().resolve(JobKey(key), dry_run=dry_run)
        if done.needs_alert:
            self.alerter().alert_if_due(done.key)
        return done

    def alerter(self, *, store: JobStore | None = None) -> ReviewAlerter:
        return self.app(store=store).review_alerter

    def run_until_idle(self, key: JobKey | str, *, steps: int = 30) -> Job:
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
        self.dependencies.rows.put("orders", {"order_id": order_id}, order_row(**changes))

    def order(self, order_id: str = "18452") -> Mapping[str, object]:
        row = self.dependencies.rows.get("orders", {"order_id": order_id})
        assert row is not None, f"there is no order {order_id}"
        return row


def charge_message(order_id: str = "18452", **more: object) -> dict[str, object]:
    return {"job": "payment.charge", "v": 1, "order_id": order_id, **more}
