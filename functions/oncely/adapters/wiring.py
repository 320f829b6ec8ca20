"""Puts the services together that more than one entry point runs."""

from collections.abc import Iterable
from datetime import timedelta

from oncely.adapters.clients import Clients
from oncely.adapters.due_index import DynamoDueIndex
from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.adapters.event_bridge import EventBridgeBus
from oncely.adapters.sns import SnsAlerts
from oncely.adapters.system import SystemClock, spread
from oncely.adapters.table_guard import table_guard
from oncely.adapters.toolbox import Toolbox
from oncely.contract import AnyContract
from oncely.registry import Registry
from oncely.services.find_due import Finder
from oncely.services.publish import Publisher
from oncely.services.reconcile import ACTOR, Reconciler
from oncely.services.tell import Teller
from oncely.settings import FinderSettings, PublisherSettings, ResolverSettings, TellerSettings


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


def wire_teller(settings: TellerSettings) -> Teller:
    """Tells a person of one job."""
    clients = Clients()
    return Teller(
        store=DynamoJobStore(client=clients.dynamodb, table=settings.jobs_table, tables={}),
        alerts=SnsAlerts(clients.sns, settings.alert_topic_arn),
        clock=SystemClock(),
        actor=ACTOR,
        stack=settings.stack_name,
    )


def wire_finder(settings: FinderSettings, contracts: Iterable[type[AnyContract]]) -> Finder:
    """Finds what is due."""
    clients = Clients()
    tools = Toolbox(settings, clients)
    looking = [kind for kind in contracts if kind.looks_for_unserved()]
    return Finder(
        registry=Registry(looking),
        tools=tools,
        store=tools.jobs(),
        index=DynamoDueIndex(clients.dynamodb, settings.jobs_table),
        clock=SystemClock(),
        guard=table_guard(clients, settings.jobs_table),
    )
