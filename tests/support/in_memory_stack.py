"""A whole deployment without AWS: the shipped services over ports that a test can inspect."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from oncely.app import App
from oncely.contract import AnyContract, providers_of
from oncely.domain.effect_outcomes import BusinessWrite
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.enqueue.enqueuer import Enqueuer
from oncely.flow.gate import Gate
from oncely.job_settings import JobSettings
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.operate.job_queries import JobQueries
from oncely.operate.repairer import Repairer
from oncely.ports import (
    BusinessTable,
    Clock,
    EventBus,
    GateTable,
    JobStore,
    MessageSender,
    Notifier,
    TableGuard,
    TableOpen,
)
from oncely.provider import AnyProvider, Provider, ProviderSettings
from oncely.providers.fake_payments import FakePayments
from oncely.providers.hubspot.fake import FakeCrm
from oncely.providers.ses.fake import FakeMailer
from oncely.publish.publisher import EndedJobPublisher
from oncely.reconcile.find_due_work import DueWorkFinder
from oncely.reconcile.reconciler import Reconciler, Resolution
from oncely.registry import ContractRegistry
from oncely.run.budgeted_notifier import AlertBudget
from oncely.run.outcomes import RunOutcome
from oncely.run.review_alerts import ReviewAlerter
from oncely.run.run_job import JobRunner
from oncely.settings import Settings
from oncely.testing.bulk_runs import MemoryBulkRuns
from oncely.testing.finished_jobs import MemoryFinishedJobs
from oncely.testing.history import MemoryErasureLog, MemoryHistory
from oncely.testing.memory import (
    MemoryAlertBudget,
    MemoryDueIndex,
    MemoryJobIndex,
    MemoryJobInserter,
    MemoryJobStore,
    MemorySweepLeases,
    MemoryTableGuard,
)
from oncely.testing.memory_gates import MemoryGateTable
from oncely.testing.row_scan import MemoryRowScan
from tests.support.fakes import (
    FakeBus,
    FakeClock,
    FakeIdentityTable,
    FakeMessageSender,
    FakeNotifier,
    MemoryMetrics,
    MemoryQueueDepths,
    MemoryRejects,
    SequentialTokens,
)
from tests.support.orders import order_row, refund_request

ROW_RETENTION = timedelta(days=90)
UNLIMITED = ProviderSettings(effects_per_second=math.inf, lookups_per_second=math.inf)
TABLE_RETENTION = timedelta(days=400)
RESOURCES = [contract.resources for contract in SHIPPED_JOBS]
SETTINGS = Settings(
    stack_name="Oncely-test",
    retention_days=90,
    jobs_table="jobs",
    gates_table="gates",
    alert_topic_arn="alerts",
    rejects_queue_url="rejects",
    queue_url="payments",
    batch_concurrency=5,
    max_receive_count=5,
    tables={name: name for one in RESOURCES for name in one.table_names},
    secrets={name: name for one in RESOURCES for name in one.secret_names},
    queues={name: name for one in RESOURCES for name in one.sends_to},
    providers={plugin.name: plugin.read_settings({}) for plugin in providers_of(SHIPPED_JOBS)},
)
T = TypeVar("T")
S = TypeVar("S", bound=JobSettings)


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

    def delete_partition(
        self, table: str, partition: Mapping[str, str], *, sort: str, dry_run: bool
    ) -> int: ...


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

    def delete_partition(self, partition: Mapping[str, str], *, sort: str, dry_run: bool) -> int:
        return self.rows.delete_partition(self.name, partition, sort=sort, dry_run=dry_run)


@dataclass(frozen=True, kw_only=True)
class FakePorts:
    """The ports of one stack in memory. Tests provide sweeps, sources and rejects."""

    store: JobStore
    rows: BusinessRows
    clients: Mapping[str, Any]  # by plug-in name; None: not configured
    sender: MessageSender
    clock: Clock
    new_token: Callable[[], str]
    notifier: Notifier
    alert_budget: AlertBudget
    event_bus: EventBus
    table_guard: TableGuard
    gate: Gate
    gate_table: GateTable
    job_index: Any
    due_index: Any
    finished_jobs: Any
    job_inserter: Any
    row_scan: Any
    history_reader: Any
    history_store: Any
    erasure_log: Any
    erasable_archive: Any
    table_identity: Any
    sweep_leases: Any = field(default_factory=MemorySweepLeases)
    table_generation: Any = lambda _arn=None: "table-1"
    sweeps: Any = None
    message_source: Any = None
    reject_queue: Any = None
    reject_archive: Any = None
    user_directory: Any = None
    audit_reports: Any = None
    stored_rejects: Any = field(default_factory=MemoryRejects)
    hourly_metrics: Any = field(default_factory=MemoryMetrics)
    queue_depths: Any = field(default_factory=MemoryQueueDepths)
    bulk_runs: Any = field(default_factory=MemoryBulkRuns)

    def jitter(self) -> float:
        return 0.0

    def new_identity(self) -> str:
        return "fresh"

    def preload(self, providers: tuple[AnyProvider, ...]) -> None:
        pass

    def table(self, name: str) -> BusinessTable:
        return _Table(self.rows, name)

    def erasable_table(self, name: str) -> _Table:
        return _Table(self.rows, name)

    def retention(self, table: str) -> timedelta:
        return TABLE_RETENTION

    def job_store(self) -> JobStore:
        return self.store

    def secret(self, name: str) -> str:
        return f"secret of {name}"

    def job_settings(self, settings_type: type[S]) -> S:
        return settings_type()

    def access_log_key(self) -> str:
        return "key of the access log"

    def message_sender(self, queue: str) -> MessageSender:
        return self.sender

    def provider(self, plugin: Provider[T, Any]) -> T:
        client: T = self.clients[plugin.name]
        return client

    def is_configured(self, plugin: AnyProvider) -> bool:
        return self.clients.get(plugin.name) is not None


@dataclass(kw_only=True)
class InMemoryStack:
    store: Any = field(default_factory=MemoryJobStore)
    rows: BusinessRows | None = None
    payments: Any = field(default_factory=FakePayments)
    other_payments: Mapping[str, Any] = field(default_factory=dict)  # by plug-in name
    crm: Any = field(default_factory=FakeCrm)
    mail: Any = field(default_factory=FakeMailer)
    bus: FakeBus = field(default_factory=FakeBus)
    clock: FakeClock = field(default_factory=FakeClock)
    gates: MemoryGateTable = field(default_factory=MemoryGateTable)
    alerts: FakeNotifier = field(default_factory=FakeNotifier)
    budget: Any = field(default_factory=MemoryAlertBudget)
    outbox: FakeMessageSender = field(default_factory=FakeMessageSender)
    contracts: tuple[type[AnyContract], ...] = SHIPPED_JOBS
    tokens: SequentialTokens = field(default_factory=SequentialTokens)
    second_operator_above: str = ""
    deployment: str | None = None  # the identity that rows and provider keys carry
    guard: TableGuard | None = None  # set by a test that blocks the table
    identity_table: FakeIdentityTable = field(default_factory=FakeIdentityTable)
    history: MemoryHistory = field(default_factory=MemoryHistory)
    bulk_runs: MemoryBulkRuns = field(default_factory=MemoryBulkRuns)

    def __post_init__(self) -> None:
        if self.rows is None:
            self.rows = self.store.business_rows
        self.erasure_log = MemoryErasureLog()

    @property
    def dependencies(self) -> FakePorts:
        return self.ports()

    def ports(self, *, provider: Any = None, **changes: Any) -> FakePorts:  # noqa: ANN401  # ports by name
        assert self.rows is not None
        given: dict[str, Any] = {
            "store": self.store,
            "rows": self.rows,
            "clients": {
                **self.other_payments,
                "stripe": provider or self.payments,
                "hubspot": self.crm,
                "ses": self.mail,
            },
            "sender": self.outbox,
            "clock": self.clock,
            "new_token": self.tokens,
            "notifier": self.alerts,
            "alert_budget": self.budget,
            "event_bus": self.bus,
            "table_guard": self.table_guard,
            "gate": self.gate,
            "gate_table": self.gates,
            "job_index": MemoryJobIndex(self.store),
            "due_index": MemoryDueIndex(self.store, budget=self.budget),
            "finished_jobs": MemoryFinishedJobs(self.store),
            "job_inserter": MemoryJobInserter(changes.get("store", self.store)),
            "row_scan": MemoryRowScan(self.store),
            "history_reader": self.history,
            "history_store": self.history,
            "erasure_log": self.erasure_log,
            "erasable_archive": self.history,
            "table_identity": self.identity_table,
            "bulk_runs": self.bulk_runs,
        }
        return FakePorts(**{**given, **changes})

    @property
    def gate(self) -> Gate:
        """A gate that reads its table each time, and never waits for a slot."""
        return Gate(
            table=self.gates,
            clock=self.clock,
            settings=dict.fromkeys(SETTINGS.providers, UNLIMITED),
            snapshot_age=timedelta(0),
        )

    def app(self, **changes: Any) -> App:  # noqa: ANN401  # ports by name
        queue = self.contracts[0].resources.queue if self.contracts else None
        above = {"second_operator_above": self.second_operator_above}
        settings = SETTINGS.model_copy(update={"queue_name": queue, **above})
        return App(settings, self.registry, self.ports(**changes))

    @property
    def table_guard(self) -> TableGuard:
        return self.guard or MemoryTableGuard(TableOpen(deployment=self.deployment))

    @property
    def registry(self) -> ContractRegistry:
        return ContractRegistry(self.contracts)

    def runner(self, **changes: Any) -> JobRunner:  # noqa: ANN401  # ports by name
        return self.app(**changes).job_runner

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

    def run_to_review(self, order_id: str = "18452") -> RunOutcome:
        """A review before any call of the provider: the order cannot be charged."""
        self.add_order(order_id, status="cancelled")
        return self.run(charge_message(order_id))

    def publisher(self, **changes: Any) -> EndedJobPublisher:  # noqa: ANN401  # ports by name
        return self.app(**changes).publisher

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

    def alerter(self, **changes: Any) -> ReviewAlerter:  # noqa: ANN401  # ports by name
        return self.app(**changes).review_alerter("reconciler")

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

    def request_refund(
        self, refund_id: str = "rma_1", *, order_id: str = "18452", **changes: object
    ) -> dict[str, object]:
        """Write the shop's request for a refund. Returns the message that names it."""
        key = {"order_id": order_id, "refund_id": refund_id}
        self.dependencies.rows.put("refund_requests", key, refund_request(**changes))
        return refund_message(refund_id, order_id=order_id)

    def order(self, order_id: str = "18452") -> Mapping[str, object]:
        row = self.dependencies.rows.get("orders", {"order_id": order_id})
        assert row is not None, f"there is no order {order_id}"
        return row


def charge_message(order_id: str = "18452", **more: object) -> dict[str, object]:
    return {"job": "payment.charge", "v": 1, "order_id": order_id, **more}


def refund_message(
    refund_id: str = "rma_1", *, order_id: str = "18452", **more: object
) -> dict[str, object]:
    named = {"job": "payment.refund", "v": 1, "order_id": order_id, "refund_id": refund_id}
    return {**named, **more}
