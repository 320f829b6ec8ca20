"""Puts the services together that more than one entry point runs."""

from collections.abc import Iterable
from datetime import timedelta

from oncely.aws.clients import AwsClients
from oncely.aws.dependencies import AwsDependencies
from oncely.aws.dynamodb_due_index import DynamoDueIndex
from oncely.aws.dynamodb_sweep_leases import DynamoSweepLeases
from oncely.aws.event_bridge import EventBridgeBus
from oncely.aws.sns import SnsNotifier
from oncely.aws.step_functions import StepFunctionsSweeps
from oncely.aws.system import SystemClock, random_jitter
from oncely.aws.table_guard import build_table_guard
from oncely.contract import AnyContract
from oncely.ports import Sweeps
from oncely.publish.publisher import EndedJobPublisher
from oncely.reconcile.find_due_work import DueWorkFinder
from oncely.reconcile.finish_sweep import SweepFinisher
from oncely.reconcile.reconciler import ACTOR, Reconciler
from oncely.reconcile.resolve_group import GroupResolver
from oncely.registry import ContractRegistry
from oncely.run.review_alerts import ReviewAlerter
from oncely.settings import (
    FindDueSettings,
    FinishSweepSettings,
    PublisherSettings,
    ReconcilerSettings,
    ResolveGroupSettings,
)


def build_publisher(
    settings: PublisherSettings,
    contracts: Iterable[type[AnyContract]],
    *,
    clients: AwsClients,
) -> EndedJobPublisher:
    """What follows an end."""
    tools = AwsDependencies(settings, clients)
    return EndedJobPublisher(
        registry=ContractRegistry(contracts),
        dependencies=tools,
        store=tools.job_store(),
        event_bus=EventBridgeBus(clients.events, settings.event_bus_name),
        sender_for_queue=tools.message_sender,
        clock=SystemClock(),
        row_retention=timedelta(days=settings.retention_days),
    )


def build_reconciler(
    settings: ReconcilerSettings,
    contracts: Iterable[type[AnyContract]],
    *,
    clients: AwsClients | None = None,
) -> Reconciler:
    """Resolves one job."""
    clients = clients or AwsClients()
    publisher = build_publisher(settings, contracts, clients=clients)
    tools = AwsDependencies(settings, clients)
    return Reconciler(
        registry=publisher.registry,
        dependencies=tools,
        store=tools.job_store(),
        clock=publisher.clock,
        jitter=random_jitter,
        sender_for_queue=tools.message_sender,
        publisher=publisher,
        guard=build_table_guard(clients, settings.jobs_table),
    )


def build_group_resolver(
    settings: ResolveGroupSettings, contracts: Iterable[type[AnyContract]]
) -> GroupResolver:
    """Resolves a group of jobs, and alerts operators of those that need review."""
    clients = AwsClients()
    reconciler = build_reconciler(settings, contracts, clients=clients)
    alerter = ReviewAlerter(
        store=reconciler.store,
        notifier=SnsNotifier(clients.sns, settings.alert_topic_arn),
        clock=reconciler.clock,
        actor=ACTOR,
        stack=settings.stack_name,
        jitter=random_jitter,
    )
    return GroupResolver(
        reconciler=reconciler, alerter=alerter, concurrency=settings.sweep_jobs_at_once
    )


def build_sweep_finisher(settings: FinishSweepSettings) -> SweepFinisher:
    """Ends a sweep."""
    clients = AwsClients()
    return SweepFinisher(
        leases=DynamoSweepLeases(clients.dynamodb, settings.jobs_table),
        sweeps=StepFunctionsSweeps(clients.states, settings.reconciler_arn),
    )


def build_sweep_starter(settings: FindDueSettings) -> Sweeps:
    """Starts a sweep."""
    return StepFunctionsSweeps(AwsClients().states, settings.reconciler_arn)


def build_due_work_finder(
    settings: FindDueSettings, contracts: Iterable[type[AnyContract]]
) -> DueWorkFinder:
    """Finds what is due."""
    clients = AwsClients()
    tools = AwsDependencies(settings, clients)
    detecting = [kind for kind in contracts if kind.detects_missing_jobs()]
    return DueWorkFinder(
        registry=ContractRegistry(detecting),
        dependencies=tools,
        store=tools.job_store(),
        index=DynamoDueIndex(clients.dynamodb, settings.jobs_table, settings.due_shards),
        leases=DynamoSweepLeases(clients.dynamodb, settings.jobs_table),
        clock=SystemClock(),
        guard=build_table_guard(clients, settings.jobs_table),
        page_size=settings.sweep_page_size,
    )
