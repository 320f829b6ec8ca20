"""The ports of the fault explorer. A schedule may intervene at every call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from oncely.domain.keys import JobKey
from oncely.ports import (
    BusinessTable,
    FinishedJobs,
    JobIndex,
    JobStore,
    MessageSender,
    MessageSource,
    Sweeps,
    TableGuard,
    UniqueWindows,
)
from oncely.provider import AnyProvider, Provider
from oncely.settings import Settings
from oncely.testing.interception import (
    InterceptedBusinessTable,
    InterceptedClock,
    InterceptedDueIndex,
    InterceptedEventBus,
    InterceptedJobStore,
    InterceptedMessageSender,
    InterceptedNotifier,
    InterceptedSweepLeases,
    Interceptor,
)
from oncely.testing.memory import (
    MemoryDueIndex,
    MemoryFinishedJobs,
    MemoryJobIndex,
    MemoryJobStore,
    MemoryUniqueWindows,
)

T = TypeVar("T")
# Retention of the rows of natural effects; every other row is kept longer.
SETTINGS: Final = Settings(retention_days=90, sweep_jobs_at_once=1)


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

    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        del message_id
        self.on_reject(body, reason)


class SimulatedPorts:
    """The ports of one simulation, with providers by the name of their plug-in."""

    def __init__(
        self,
        interceptor: Interceptor,
        store: MemoryJobStore,
        providers: Mapping[str, Any],
        hooks: SimulationHooks,
        *,
        guard: TableGuard,
    ) -> None:
        self.interceptor = interceptor
        self.store = store
        self.providers = providers
        self.on_send = hooks.on_send
        self.table_guard = guard
        self.new_token = interceptor.schedule.new_token
        self.clock = InterceptedClock(interceptor)
        self.notifier = InterceptedNotifier(interceptor)
        self.event_bus = InterceptedEventBus(interceptor)
        self.sweep_leases = InterceptedSweepLeases(interceptor)
        self.due_index = InterceptedDueIndex(interceptor, MemoryDueIndex(store, shards=1))
        self.reject_queue = _RejectQueue(hooks.on_reject)
        self.job_index: JobIndex = MemoryJobIndex(store)
        self.finished_jobs: FinishedJobs = MemoryFinishedJobs(store)
        self.unique_windows: UniqueWindows = MemoryUniqueWindows(store)
        self._job_store = InterceptedJobStore(interceptor, store, hooks.on_write)

    @property
    def message_source(self) -> MessageSource:
        raise NotImplementedError("the simulation redelivers its messages itself")

    @property
    def sweeps(self) -> Sweeps:
        raise NotImplementedError("the simulation starts its own sweeps")

    def jitter(self) -> float:
        return 0.0

    def preload(self, providers: tuple[AnyProvider, ...]) -> None:
        del providers

    def table(self, name: str) -> BusinessTable:
        return InterceptedBusinessTable(self.interceptor, self.store, name)

    def job_store(self) -> JobStore:
        return self._job_store

    def secret(self, name: str) -> str:
        return f"secret of {name}"

    def message_sender(self, queue: str) -> MessageSender:
        del queue  # the simulation has one queue
        return InterceptedMessageSender(self.interceptor, self.on_send)

    def provider(self, plugin: Provider[T, Any]) -> T:
        provider: T = self.providers[plugin.name]
        return provider

    def is_configured(self, plugin: AnyProvider) -> bool:
        return self.providers.get(plugin.name) is not None
