"""The shipped services, wired over ports whose every call is a point."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from oncely.domain.keys import JobKey
from oncely.ports import BusinessTable, JobStore, MessageSender, TableGuard
from oncely.providers.interfaces import Crm, Mailer, PaymentProvider
from oncely.publish.publisher import EndedJobPublisher
from oncely.reconcile.find_due_work import DueWorkFinder
from oncely.reconcile.reconciler import ACTOR, Reconciler
from oncely.reconcile.resolve_group import GroupResolver
from oncely.registry import ContractRegistry
from oncely.run.dead_letters import DeadLetterHandler
from oncely.run.review_alerts import ReviewAlerter
from oncely.run.run_job import JobRunner
from oncely.testing.intercepted_provider import InterceptedProvider
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
from oncely.testing.memory import MemoryDueIndex, MemoryJobStore
from oncely.testing.scenario import Scenario

# The rows of natural effects; every other row stays longer.
RETENTION: Final = timedelta(days=90)


@dataclass(frozen=True, kw_only=True)
class SimulationHooks:
    """What the ports tell the world."""

    on_write: Callable[[JobKey], None]
    on_send: Callable[[str], None]
    on_reject: Callable[[str, str], None]


@dataclass(frozen=True)
class SimulatedDependencies:
    """What contracts are built from; a provider is found by its name."""

    interceptor: Interceptor
    store: MemoryJobStore
    intercepted_store: JobStore
    providers: Mapping[str, Any]
    on_send: Callable[[str], None]

    def table(self, name: str) -> BusinessTable:
        return InterceptedBusinessTable(self.interceptor, self.store, name)

    def job_store(self) -> JobStore:
        return self.intercepted_store

    def secret(self, name: str) -> str:
        return f"secret of {name}"

    def message_sender(self, queue: str) -> MessageSender:
        del queue  # one queue carries all that is explored
        return InterceptedMessageSender(self.interceptor, self.on_send)

    def payments(self) -> PaymentProvider:
        found: PaymentProvider = self.providers["payments"]
        return found

    def crm(self) -> Crm:
        found: Crm = self.providers["crm"]
        return found

    def mailer(self) -> Mailer | None:
        found: Mailer | None = self.providers.get("mailer")
        return found

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # a tool of a team's own
        providers: Mapping[str, Any] = object.__getattribute__(self, "providers")
        if name not in providers:
            raise AttributeError(name)
        return lambda: providers[name]


@dataclass(frozen=True)
class _RejectSource:
    """The inbox of the dead letters' consumer."""

    on_reject: Callable[[str, str], None]

    def redeliver_after(self, receipt: str, *, delay: timedelta) -> None:
        raise NotImplementedError("the world shows its letters again itself")

    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        del message_id
        self.on_reject(body, reason)


class SimulatedServices:
    """Every service of one world."""

    def __init__(
        self,
        scenario: Scenario,
        interceptor: Interceptor,
        store: MemoryJobStore,
        providers: Mapping[str, InterceptedProvider | None],
        hooks: SimulationHooks,
        *,
        guard: TableGuard,
    ) -> None:
        self.clock = InterceptedClock(interceptor)
        self.notifier = InterceptedNotifier(interceptor)
        self.event_bus = InterceptedEventBus(interceptor)
        self.registry = ContractRegistry(scenario.contracts)
        intercepted_store = InterceptedJobStore(interceptor, store, hooks.on_write)
        tools = SimulatedDependencies(
            interceptor, store, intercepted_store, providers, hooks.on_send
        )
        self.dependencies = tools
        self.runner = JobRunner(
            registry=self.registry,
            dependencies=tools,
            store=intercepted_store,
            notifier=self.notifier,
            clock=self.clock,
            new_token=interceptor.schedule.new_token,
            jitter=lambda: 0.0,
            guard=guard,
            row_retention=RETENTION,
        )
        self.publisher = EndedJobPublisher(
            registry=self.registry,
            dependencies=tools,
            store=intercepted_store,
            event_bus=self.event_bus,
            sender_for_queue=tools.message_sender,
            clock=self.clock,
            row_retention=RETENTION,
        )
        self.leases = InterceptedSweepLeases(interceptor)
        self.finder = DueWorkFinder(
            registry=self.registry,
            dependencies=tools,
            store=intercepted_store,
            index=InterceptedDueIndex(interceptor, MemoryDueIndex(store, shards=1)),
            leases=self.leases,
            clock=self.clock,
            guard=guard,
        )
        self.reconciler = Reconciler(
            registry=self.registry,
            dependencies=tools,
            store=intercepted_store,
            clock=self.clock,
            jitter=lambda: 0.0,
            sender_for_queue=tools.message_sender,
            publisher=self.publisher,
            guard=guard,
        )
        alerter = ReviewAlerter(
            store=intercepted_store, notifier=self.notifier, clock=self.clock, actor=ACTOR
        )
        self.group_resolver = GroupResolver(
            reconciler=self.reconciler, alerter=alerter, concurrency=1
        )
        self.dead_letters = DeadLetterHandler(
            registry=self.registry,
            store=intercepted_store,
            notifier=self.notifier,
            message_source=_RejectSource(hooks.on_reject),
            clock=self.clock,
            guard=guard,
        )
