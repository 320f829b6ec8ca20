"""Puts the services together that more than one entry point runs."""

from collections.abc import Iterable
from datetime import timedelta

from oncely.adapters.clients import Clients
from oncely.adapters.due_index import DynamoDueIndex
from oncely.adapters.event_bridge import EventBridgeBus
from oncely.adapters.sns import SnsAlerts
from oncely.adapters.step_functions import StepFunctionsSweeps
from oncely.adapters.sweep_leases import DynamoSweepLeases
from oncely.adapters.system import SystemClock, spread
from oncely.adapters.table_guard import table_guard
from oncely.adapters.toolbox import Toolbox
from oncely.contract import AnyContract
from oncely.ports import Sweeps
from oncely.registry import Registry
from oncely.services.find_due import Finder
from oncely.services.finish_sweep import Finish
from oncely.services.publish import Publisher
from oncely.services.reconcile import ACTOR, Reconciler
from oncely.services.resolve_group import GroupResolver
from oncely.services.tell import Teller
from oncely.settings import (
    FinderSettings,
    GroupSettings,
    PublisherSettings,
    ResolverSettings,
    SweepSettings,
)


def wire_publisher(
    settings: PublisherSettings,
    contracts: Iterable[type[AnyContract]],
    *,
    clients: Clients,
) -> Publisher:
    """What follows an end."""
    tools = Toolbox(settings, clients)
    return Publisher(
        registry=Registry(contracts),
        tools=tools,
        store=tools.jobs(),
        bus=EventBridgeBus(clients.events, settings.event_bus_name),
        outbox=tools.outbox,
        clock=SystemClock(),
        row_retention=timedelta(days=settings.retention_days),
    )


def wire_reconciler(
    settings: ResolverSettings,
    contracts: Iterable[type[AnyContract]],
    *,
    clients: Clients | None = None,
) -> Reconciler:
    """Resolves one job."""
    clients = clients or Clients()
    publisher = wire_publisher(settings, contracts, clients=clients)
    tools = Toolbox(settings, clients)
    return Reconciler(
        registry=publisher.registry,
        tools=tools,
        store=tools.jobs(),
        clock=publisher.clock,
        spread=spread,
        outbox=tools.outbox,
        publisher=publisher,
        guard=table_guard(clients, settings.jobs_table),
    )


def wire_group_resolver(
    settings: GroupSettings, contracts: Iterable[type[AnyContract]]
) -> GroupResolver:
    """Resolves a group of jobs, and alerts operators of those that need review."""
    clients = Clients()
    reconciler = wire_reconciler(settings, contracts, clients=clients)
    teller = Teller(
        store=reconciler.store,
        alerts=SnsAlerts(clients.sns, settings.alert_topic_arn),
        clock=reconciler.clock,
        actor=ACTOR,
        stack=settings.stack_name,
        jitter=spread,
    )
    return GroupResolver(reconciler=reconciler, teller=teller, at_once=settings.sweep_jobs_at_once)


def wire_finish(settings: SweepSettings) -> Finish:
    """Ends a sweep."""
    clients = Clients()
    return Finish(
        leases=DynamoSweepLeases(clients.dynamodb, settings.jobs_table),
        sweeps=StepFunctionsSweeps(clients.states, settings.reconciler_arn),
    )


def wire_sweeps(settings: FinderSettings) -> Sweeps:
    """Starts a sweep."""
    return StepFunctionsSweeps(Clients().states, settings.reconciler_arn)


def wire_finder(settings: FinderSettings, contracts: Iterable[type[AnyContract]]) -> Finder:
    """Finds what is due."""
    clients = Clients()
    tools = Toolbox(settings, clients)
    looking = [kind for kind in contracts if kind.looks_for_unserved()]
    return Finder(
        registry=Registry(looking),
        tools=tools,
        store=tools.jobs(),
        index=DynamoDueIndex(clients.dynamodb, settings.jobs_table, settings.due_shards),
        leases=DynamoSweepLeases(clients.dynamodb, settings.jobs_table),
        clock=SystemClock(),
        guard=table_guard(clients, settings.jobs_table),
        page_size=settings.sweep_page_size,
    )
