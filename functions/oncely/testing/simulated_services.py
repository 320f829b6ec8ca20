"""The ports of the fault explorer. A schedule may intervene at every call."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from oncely.domain.ended_jobs import PROOF_RETENTION
from oncely.domain.errors import NotConfiguredError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.flow.gate import Gate
from oncely.job_settings import JobSettings
from oncely.ports import (
    BusinessTable,
    CreateResult,
    JobInserter,
    JobStore,
    MessageSender,
)
from oncely.provider import AnyProvider, Provider, ProviderSettings
from oncely.search_ports import FinishedJobs, JobIndex
from oncely.settings import Settings
from oncely.testing.erasing import (
    InterceptedArchive,
    InterceptedErasableTable,
    InterceptedErasureLog,
)
from oncely.testing.finished_jobs import MemoryFinishedJobs
from oncely.testing.interception import (
    InterceptedAlertBudget,
    InterceptedBusinessTable,
    InterceptedClock,
    InterceptedDueIndex,
    InterceptedEventBus,
    InterceptedGateTable,
    InterceptedJobStore,
    InterceptedMessageSender,
    InterceptedNotifier,
    InterceptedSweepLeases,
    Interceptor,
)
from oncely.testing.memory import (
    MemoryAlertBudget,
    MemoryDueIndex,
    MemoryJobIndex,
    MemoryJobInserter,
    MemoryJobStore,
)
from oncely.testing.memory_gates import MemoryGateTable
from oncely.testing.restored_table import RestorableTable
from oncely.testing.row_scan import MemoryRowScan
from oncely.testing.schedule import WallClock
from oncely.testing.tasks import START

T = TypeVar("T")
S = TypeVar("S", bound=JobSettings)
# Retention of the rows of natural effects; every other row is kept longer.
_UNLIMITED: Final = ProviderSettings(effects_per_second=math.inf, lookups_per_second=math.inf)
# The account and queue of events.
ACCOUNT: Final = "123456789012"
SETTINGS: Final = Settings(
    retention_days=90, sweep_jobs_at_once=1, event_account=ACCOUNT, queue_url="events"
)


@dataclass
class _InterceptedJobInserter(MemoryJobInserter):
    """Inserts through the intercepted store."""

    job_store: JobStore

    def insert(self, job: Job) -> CreateResult:
        return self.job_store.create(job)


@dataclass(frozen=True, kw_only=True)
class SimulationHooks:
    """Callbacks of the ports into the simulation."""

    on_write: Callable[[JobKey], None]
    on_send: Callable[[str], None]
    on_reject: Callable[[str, str], None]


@dataclass(frozen=True)
class _RejectQueue:
    """Reports rejects to the simulation."""

    on_reject: Callable[[str, str], None]

    def reject(
        self, body: str, *, reason: str, message_id: str, job_key: str | None = None
    ) -> None:
        del message_id, job_key
        self.on_reject(body, reason)


class SimulatedPorts:
    """The ports of one simulation, with providers by the name of their plug-in."""

    # The simulation redelivers messages and starts sweeps itself. It archives no rejects, has no
    # admin page, and repairs one job at a time.
    message_source: Any = None
    sweeps: Any = None
    reject_archive: Any = None
    user_directory: Any = None
    audit_reports: Any = None
    stored_rejects: Any = None
    hourly_metrics: Any = None
    queue_depths: Any = None
    bulk_runs: Any = None

    def __init__(
        self,
        interceptor: Interceptor,
        store: MemoryJobStore,
        providers: Mapping[str, Any],
        hooks: SimulationHooks,
        table: RestorableTable,
        *,
        budget: MemoryAlertBudget,
        job_settings: tuple[JobSettings, ...] = (),
        secrets_missing_for: timedelta = timedelta(0),
        gated: bool,
    ) -> None:
        self._job_settings = job_settings
        self._secrets_from = START + secrets_missing_for
        self.interceptor = interceptor
        self.store = store
        self.providers = providers
        self.on_send = hooks.on_send
        self.table_guard = table.guard
        self.table_identity = table
        self.history_reader = table.history
        self.erasure_log = InterceptedErasureLog(interceptor, table.erasure_log)
        self.erasable_archive = InterceptedArchive(interceptor, table.history)
        self.history_store: Any = self.erasable_archive
        self.row_scan = MemoryRowScan(store)
        self.new_token = interceptor.schedule.new_token
        self.clock = InterceptedClock(interceptor)
        self.notifier = InterceptedNotifier(interceptor)
        self.event_bus = InterceptedEventBus(interceptor)
        self.sweep_leases = InterceptedSweepLeases(interceptor)
        self.alert_budget = InterceptedAlertBudget(interceptor, budget)
        self.due_index = InterceptedDueIndex(
            interceptor, MemoryDueIndex(store, shards=1, budget=budget)
        )
        self.gates = self.gate_table = MemoryGateTable()
        # Without a cache, so that a schedule can intervene at each check.
        self.gate = Gate(
            table=InterceptedGateTable(interceptor, self.gates) if gated else self.gates,
            clock=WallClock(interceptor.schedule),
            settings=dict.fromkeys(providers, _UNLIMITED),
            snapshot_age=timedelta(0),
            on_error=lambda _: None,
        )
        self.reject_queue = _RejectQueue(hooks.on_reject)
        self.job_index: JobIndex = MemoryJobIndex(store)
        self.finished_jobs: FinishedJobs = MemoryFinishedJobs(store)
        self._job_store = InterceptedJobStore(interceptor, store, hooks.on_write)
        self.job_inserter: JobInserter = _InterceptedJobInserter(store, self._job_store)

    def jitter(self) -> float:
        return 0.0

    def new_identity(self) -> str:
        return "another"

    def table_generation(self, stream_arn: str | None = None) -> str:
        del stream_arn
        return self.table_identity.table_id

    def preload(self, providers: tuple[AnyProvider, ...]) -> None:
        del providers

    def table(self, name: str) -> BusinessTable:
        return InterceptedBusinessTable(self.interceptor, self.store, name)

    def erasable_table(self, name: str) -> InterceptedErasableTable:
        return InterceptedErasableTable(self.interceptor, self.store, name)

    def retention(self, table: str) -> timedelta:
        del table  # the simulation has no settings
        return PROOF_RETENTION

    def job_store(self) -> JobStore:
        return self._job_store

    def secret(self, name: str) -> str:
        if self.interceptor.schedule.now < self._secrets_from:
            raise NotConfiguredError(f"the secret {name!r} is empty: store the API key in it")
        return f"secret of {name}"

    def job_settings(self, settings_type: type[S]) -> S:
        for given in self._job_settings:
            if isinstance(given, settings_type):
                return given
        name = settings_type.__name__
        raise NotConfiguredError(f"no contract declares {name}: add `settings={name}` to resources")

    def access_log_key(self) -> str:
        return "key of the access log"

    def message_sender(self, queue: str) -> MessageSender:
        del queue  # the simulation has one queue
        return InterceptedMessageSender(self.interceptor, self.on_send)

    def provider(self, plugin: Provider[T, Any]) -> T:
        provider: T = self.providers[plugin.name]
        return provider

    def is_configured(self, plugin: AnyProvider) -> bool:
        return self.providers.get(plugin.name) is not None
