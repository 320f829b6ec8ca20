"""A whole deployment without AWS: the shipped services over ports that a test can inspect."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from oncely.alerts.budgeted_notifier import DynamoAlertBudget
from oncely.alerts.review_alerts import ReviewAlerter
from oncely.app import App
from oncely.aws.objects import S3Objects
from oncely.aws.sqs import MessageSender
from oncely.contracts.job import AnyJob, JobSettings, providers_of
from oncely.contracts.registry import JobRegistry
from oncely.contracts.settings import Settings
from oncely.core.effect_outcomes import BusinessWrite
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.outcomes import RunOutcome
from oncely.core.run_job import JobRunner
from oncely.core.store import JobStore
from oncely.core.table_guard import TableGuard, TableOpen
from oncely.enqueue.enqueuer import Enqueuer
from oncely.gates.gate import Gate
from oncely.gates.table import GateTable
from oncely.history.archive import HistoryArchive
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.operate.job_queries import JobQueries
from oncely.operate.own_tables import GATES, JOBS
from oncely.operate.repairer import Repairer
from oncely.plugins.provider import AnyProvider, Provider, ProviderSettings
from oncely.ports import Ports
from oncely.publish.publisher import EndedJobPublisher
from oncely.reconcile.find_due_work import DueWorkFinder
from oncely.reconcile.reconciler import Reconciler, Resolution
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.world import TAG_KEY
from tests.support.crm import InProcessCrm
from tests.support.fakes import (
    FakeBus,
    FakeClock,
    FakeIdentityTable,
    FakeMessageSender,
    FakeNotifier,
    FakeTableGuard,
    MemoryMetrics,
    MemoryQueueDepths,
    SequentialTokens,
)
from tests.support.mail import MemoryMail
from tests.support.orders import order_row, refund_request
from tests.support.stored_rows import (
    ARCHIVE,
    InspectableStore,
    StoredBulkRuns,
    StoredErasureLog,
    StoredRejects,
    StoredRows,
    new_account,
)
from tests.support.stripe_account import StripeAccount

ROW_RETENTION = timedelta(days=90)
UNLIMITED = ProviderSettings(effects_per_second=math.inf, lookups_per_second=math.inf)
GENERATION = "table-1"
TABLE_RETENTION = timedelta(days=400)
SETTINGS = Settings(
    stack_name="Oncely-test",
    retention_days=90,
    jobs_table="jobs",
    gates_table="gates",
    alert_topic_arn="alerts",
    rejects_queue_url="rejects",
    queue_url="payments",
    archive_bucket=ARCHIVE,
    batch_concurrency=5,
    max_receive_count=5,
    tables={name: name for one in SHIPPED_JOBS for name in one.table_names()},
    secrets={name: name for one in SHIPPED_JOBS for name in one.secret_names()},
    queues={name: name for one in SHIPPED_JOBS for name in one.sends_to},
    providers={plugin.name: plugin.read_settings({}) for plugin in providers_of(SHIPPED_JOBS)},
)
T = TypeVar("T")
S = TypeVar("S", bound=JobSettings)


class BusinessTables(Protocol):
    """Business rows by their table, such as those on an engine."""

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
    rows: BusinessTables
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


class InMemoryPorts(Ports):
    """The ports that are deployed, over AWS in memory, except those that a test provides."""

    def __init__(
        self,
        settings: Settings,
        aws: MemoryAws,
        *,
        store: JobStore,
        rows: BusinessTables | None,  # instead of the tables of the account
        clients: Mapping[str, Any],  # by plug-in name; None: not configured
        sender: MessageSender,
        **ports: object,
    ) -> None:
        super().__init__(settings, aws.clients)
        self.jitter = lambda: 0.0
        self.new_identity = lambda: "fresh"
        self.store, self.sender = store, sender
        self._rows, self._providers = rows, clients
        # Each stands for the cached property with its name.
        vars(self).update(ports, _job_store=store)

    def table(self, name: str) -> Any:  # noqa: ANN401  # of the account, or of the test
        return super().table(name) if self._rows is None else _Table(self._rows, name)

    def job_settings(self, settings_type: type[S]) -> S:
        return settings_type()

    def message_sender(self, queue: str) -> Any:  # noqa: ANN401  # of the test
        del queue
        return self.sender

    def provider(self, plugin: Provider[T, Any]) -> T:
        client: T = self._providers[plugin.name]
        return client

    def is_configured(self, plugin: AnyProvider) -> bool:
        return self._providers.get(plugin.name) is not None


@dataclass(kw_only=True)
class InMemoryStack:
    store: Any = None  # the shipped one, unless a test provides another
    rows: Any = None  # those of the account, unless a test provides others
    payments: Any = field(default_factory=StripeAccount)
    other_payments: Mapping[str, Any] = field(default_factory=dict)  # by plug-in name
    crm: Any = None  # by default, HubSpot with the clock of this stack
    mail: Any = field(default_factory=MemoryMail)
    bus: FakeBus = field(default_factory=FakeBus)
    clock: FakeClock = field(default_factory=FakeClock)
    alerts: FakeNotifier = field(default_factory=FakeNotifier)
    outbox: FakeMessageSender = field(default_factory=FakeMessageSender)
    contracts: tuple[type[AnyJob], ...] = SHIPPED_JOBS
    tokens: SequentialTokens = field(default_factory=SequentialTokens)
    second_operator_above: str = ""
    max_alerts_per_hour: int = SETTINGS.max_alerts_per_hour
    deployment: str | None = None  # the identity that rows and provider keys carry
    guard: TableGuard | None = None  # set by a test that blocks the table
    identity_table: FakeIdentityTable = field(default_factory=FakeIdentityTable)

    def __post_init__(self) -> None:
        if isinstance(self.store, InspectableStore):
            self.aws: MemoryAws = self.store.aws
        else:
            self.aws = new_account(lambda: self.clock.now(), self.contracts)  # noqa: PLW0108  # a test may replace the clock
        self.store = self.store or InspectableStore(self.aws)
        self.rows = self.rows or StoredRows(self.aws.dynamodb)
        clients = self.aws.clients
        self.gates = GateTable(clients.dynamodb, GATES)
        self.budget: Any = DynamoAlertBudget(clients.dynamodb, JOBS)
        objects = S3Objects(clients.s3, ARCHIVE)
        self.history = HistoryArchive(objects)
        self.erasure_log = StoredErasureLog(objects)
        self.bulk_runs = StoredBulkRuns(objects)
        self.rejects = StoredRejects(objects)
        if self.crm is None:
            self.crm = InProcessCrm(self.clock)
        for one in (self.payments, *self.other_payments.values()):
            if isinstance(one, StripeAccount):
                one.now = one.now or self.clock.now

    @property
    def tools(self) -> InMemoryPorts:
        return self.ports()

    def ports(self, *, provider: Any = None, **changes: Any) -> InMemoryPorts:  # noqa: ANN401  # ports by name
        given: dict[str, Any] = {
            "store": self.store,
            "rows": None if isinstance(self.rows, StoredRows) else self.rows,
            "clients": {
                **self.other_payments,
                "stripe": provider or self.payments,
                "hubspot": self.crm,
                "ses": self.mail,
            },
            "sender": self.outbox,
            "clock": self.clock,
            "access_log_key": lambda: "key of the access log",
            "secret": lambda name: f"secret of {name}",
            "stored_rejects": self.rejects,
            "hourly_metrics": MemoryMetrics(),
            "queue_depths": MemoryQueueDepths(),
            "new_token": self.tokens,
            "notifier": self.alerts,
            "alert_budget": self.budget,
            "event_bus": self.bus,
            "table_guard": self.table_guard,
            "gate": self.gate,
            "gate_table": self.gates,
            "table_identity": self.identity_table,
            "table_generation": lambda _arn=None: GENERATION,
        }
        return InMemoryPorts(self.settings, self.aws, **{**given, **changes})

    @property
    def settings(self) -> Settings:
        queue = self.contracts[0].queue if self.contracts else None
        above = {"second_operator_above": self.second_operator_above}
        tables = {name: name for one in self.contracts for name in one.table_names()}
        retention = dict.fromkeys((*SETTINGS.tables, *tables), TABLE_RETENTION.days)
        changes = {
            "queue_name": queue,
            "tables": {**SETTINGS.tables, **tables},
            "table_retention_days": retention,
            "max_alerts_per_hour": self.max_alerts_per_hour,
            **above,
        }
        return SETTINGS.model_copy(update=changes)

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
        ports = self.ports(**changes)
        return App(ports.settings, self.registry, ports)

    @property
    def table_guard(self) -> TableGuard:
        return self.guard or FakeTableGuard(TableOpen(deployment=self.deployment, tag_key=TAG_KEY))

    @property
    def registry(self) -> JobRegistry:
        return JobRegistry(self.contracts)

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

    def run_until_idle(self, key: JobKey | str, *, steps: int = 30) -> JobRow:
        for _ in range(steps):
            job = self.job(key)
            if job.ended or job.due_at is None:
                return job
            self.clock.time = max(self.clock.time, job.due_at)
            self.reconcile(key)
            while self.outbox.sent:
                self.run(self.outbox.sent.pop(0))
        return self.job(key)

    def write_history(self) -> None:
        """Write a line of every row, as it is now."""
        self.app().backfill.run(generation=GENERATION)

    def job(self, key: JobKey | str) -> JobRow:
        found = self.store.get(JobKey(key))
        assert isinstance(found, JobRow), f"there is no row of {key}"
        return found

    def add_order(self, order_id: str = "18452", **changes: object) -> None:
        self.rows.put("orders", {"order_id": order_id}, order_row(**changes))

    def request_refund(
        self, refund_id: str = "rma_1", *, order_id: str = "18452", **changes: object
    ) -> dict[str, object]:
        """Write the shop's request for a refund. Returns the message that names it."""
        key = {"order_id": order_id, "refund_id": refund_id}
        self.rows.put("refund_requests", key, refund_request(**changes))
        return refund_message(refund_id, order_id=order_id)

    def order(self, order_id: str = "18452") -> Mapping[str, object]:
        row: Mapping[str, object] | None = self.rows.get("orders", {"order_id": order_id})
        assert row is not None, f"there is no order {order_id}"
        return row


def charge_message(order_id: str = "18452", **more: object) -> dict[str, object]:
    return {"job": "payment.charge", "v": 1, "order_id": order_id, **more}


def refund_message(
    refund_id: str = "rma_1", *, order_id: str = "18452", **more: object
) -> dict[str, object]:
    named = {"job": "payment.refund", "v": 1, "order_id": order_id, "refund_id": refund_id}
    return {**named, **more}
