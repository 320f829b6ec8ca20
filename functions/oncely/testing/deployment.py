"""The shipped services, wired over ports whose every call is a point."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from oncely.domain.keys import JobKey
from oncely.ports import JobStore, Outbox, Table, TableGuard
from oncely.providers import Crm, Mailer, PaymentProvider
from oncely.registry import Registry
from oncely.services.dead_letters import DeadLetters
from oncely.services.find_due import Finder
from oncely.services.publish import Publisher
from oncely.services.reconcile import ACTOR, Reconciler
from oncely.services.resolve_group import GroupResolver
from oncely.services.run_job import JobRunner
from oncely.services.tell import Teller
from oncely.testing.memory import MemoryDueIndex, MemoryJobStore
from oncely.testing.point_provider import PointProvider
from oncely.testing.points import (
    PointAlerts,
    PointBus,
    PointClock,
    PointIndex,
    PointLeases,
    PointOutbox,
    Points,
    PointStore,
    PointTable,
)
from oncely.testing.scenario import Scenario

# The rows of natural effects; every other row stays longer.
RETENTION: Final = timedelta(days=90)


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the ports tell the world."""

    wrote: Callable[[JobKey], None]
    sent: Callable[[str], None]
    rejected: Callable[[str, str], None]


@dataclass(frozen=True)
class Tools:
    """What contracts are built from; a provider is found by its name."""

    points: Points
    store: MemoryJobStore
    guarded: JobStore
    providers: Mapping[str, Any]
    sent: Callable[[str], None]

    def table(self, name: str) -> Table:
        return PointTable(self.points, self.store, name)

    def jobs(self) -> JobStore:
        return self.guarded

    def secret(self, name: str) -> str:
        return f"secret of {name}"

    def outbox(self, queue: str) -> Outbox:
        del queue  # one queue carries all that is explored
        return PointOutbox(self.points, self.sent)

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
class _Rejects:
    """The inbox of the dead letters' consumer."""

    rejected: Callable[[str, str], None]

    def show_again(self, receipt: str, *, after: timedelta) -> None:
        raise NotImplementedError("the world shows its letters again itself")

    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        del message_id
        self.rejected(body, reason)


class Deployment:
    """Every service of one world."""

    def __init__(
        self,
        scenario: Scenario,
        points: Points,
        store: MemoryJobStore,
        providers: Mapping[str, PointProvider | None],
        hooks: Hooks,
        *,
        guard: TableGuard,
    ) -> None:
        self.clock = PointClock(points)
        self.alerts = PointAlerts(points)
        self.bus = PointBus(points)
        self.registry = Registry(scenario.contracts)
        guarded = PointStore(points, store, hooks.wrote)
        tools = Tools(points, store, guarded, providers, hooks.sent)
        self.tools = tools
        self.runner = JobRunner(
            registry=self.registry,
            tools=tools,
            store=guarded,
            alerts=self.alerts,
            clock=self.clock,
            new_token=points.schedule.new_token,
            spread=lambda: 0.0,
            guard=guard,
            row_retention=RETENTION,
        )
        self.publisher = Publisher(
            registry=self.registry,
            tools=tools,
            store=guarded,
            bus=self.bus,
            outbox=tools.outbox,
            clock=self.clock,
            row_retention=RETENTION,
        )
        self.leases = PointLeases(points)
        self.finder = Finder(
            registry=self.registry,
            tools=tools,
            store=guarded,
            index=PointIndex(points, MemoryDueIndex(store, shards=1)),
            leases=self.leases,
            clock=self.clock,
            guard=guard,
        )
        self.reconciler = Reconciler(
            registry=self.registry,
            tools=tools,
            store=guarded,
            clock=self.clock,
            spread=lambda: 0.0,
            outbox=tools.outbox,
            publisher=self.publisher,
            guard=guard,
        )
        teller = Teller(store=guarded, alerts=self.alerts, clock=self.clock, actor=ACTOR)
        self.group = GroupResolver(reconciler=self.reconciler, teller=teller, at_once=1)
        self.dead_letters = DeadLetters(
            registry=self.registry,
            store=guarded,
            alerts=self.alerts,
            inbox=_Rejects(hooks.rejected),
            clock=self.clock,
            guard=guard,
        )
