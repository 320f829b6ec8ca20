"""The composition root: builds every service from settings, job types and ports."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from oncely.domain.errors import NotConfiguredError
from oncely.ports import (
    Clock,
    Dependencies,
    DueIndex,
    EventBus,
    FinishedJobs,
    JobIndex,
    MessageSource,
    Notifier,
    RejectQueue,
    SweepLeases,
    Sweeps,
    TableGuard,
    UniqueWindows,
)
from oncely.provider import AnyProvider
from oncely.registry import ContractRegistry
from oncely.settings import Settings

if TYPE_CHECKING:
    from oncely.enqueue.enqueuer import Enqueuer
    from oncely.operate.job_queries import JobQueries
    from oncely.operate.repairer import Repairer
    from oncely.publish.publisher import EndedJobPublisher
    from oncely.reconcile.find_due_work import DueWorkFinder
    from oncely.reconcile.reconciler import Reconciler
    from oncely.reconcile.resolve_group import GroupResolver, SweepFinisher
    from oncely.run.dead_letters import DeadLetterHandler
    from oncely.run.process_batch import BatchProcessor
    from oncely.run.review_alerts import ReviewAlerter
    from oncely.run.run_job import JobRunner


class Ports(Dependencies, Protocol):
    """The ports of all services, implemented for AWS, in memory, and with injected faults."""

    def jitter(self) -> float: ...
    def new_token(self) -> str: ...
    def preload(self, providers: tuple[AnyProvider, ...]) -> None: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def notifier(self) -> Notifier: ...
    @property
    def message_source(self) -> MessageSource: ...
    @property
    def reject_queue(self) -> RejectQueue: ...
    @property
    def event_bus(self) -> EventBus: ...
    @property
    def due_index(self) -> DueIndex: ...
    @property
    def job_index(self) -> JobIndex: ...
    @property
    def finished_jobs(self) -> FinishedJobs: ...
    @property
    def unique_windows(self) -> UniqueWindows: ...
    @property
    def sweep_leases(self) -> SweepLeases: ...
    @property
    def sweeps(self) -> Sweeps: ...
    @property
    def table_guard(self) -> TableGuard: ...


@dataclass(frozen=True)
class App:
    """The services of Oncely, each imported and built on first use.

    app_from_env(os.environ, CONTRACTS).batch_processor
    """

    settings: Settings
    registry: ContractRegistry
    ports: Ports

    @cached_property
    def batch_processor(self) -> "BatchProcessor":
        """The worker of the queue that the settings name."""
        from oncely.run.process_batch import BatchProcessor

        self.settings.require("queue_name", "queue_url")
        registry = self.registry.for_queue(self.settings.queue_name or "")
        if not tuple(registry):
            # Otherwise every message would be rejected as unknown.
            raise NotConfiguredError(
                f"no contract uses the queue {self.settings.queue_name!r}: correct QUEUE_NAME and "
                "deploy again"
            )
        resources = [contract_type.resources for contract_type in registry]
        self.settings.require(
            *("jobs_table", "alert_topic_arn", "rejects_queue_url", "retention_days"),
            *sorted({f"tables.{name}" for one in resources for name in one.table_names}),
            *sorted({f"secrets.{name}" for one in resources for name in one.secret_names}),
            *sorted({f"queues.{name}" for one in resources for name in one.sends_to}),
        )
        self.ports.preload(tuple(plugin for one in resources for plugin in one.providers))
        return BatchProcessor(
            runner=App(self.settings, registry, self.ports).job_runner,
            message_source=self.ports.message_source,
            reject_queue=self.ports.reject_queue,
            clock=self.ports.clock,
            jitter=self.ports.jitter,
            concurrency=self.settings.batch_concurrency,
            max_receive_count=self.settings.max_receive_count,
        )

    @cached_property
    def job_runner(self) -> "JobRunner":
        """The service that runs one message."""
        from oncely.run.run_job import JobRunner

        return JobRunner(
            registry=self.registry,
            dependencies=self.ports,
            store=self.ports.job_store(),
            notifier=self.ports.notifier,
            clock=self.ports.clock,
            new_token=self.ports.new_token,
            jitter=self.ports.jitter,
            guard=self.ports.table_guard,
            stack=self.settings.stack_name,
            row_retention=self._row_retention,
        )

    @cached_property
    def dead_letter_handler(self) -> "DeadLetterHandler":
        """The service that brings the jobs of dead letters to a known status."""
        from oncely.run.dead_letters import DeadLetterHandler

        return DeadLetterHandler(
            registry=self.registry,
            store=self.ports.job_store(),
            notifier=self.ports.notifier,
            reject_queue=self.ports.reject_queue,
            clock=self.ports.clock,
            guard=self.ports.table_guard,
            stack=self.settings.stack_name,
        )

    @cached_property
    def publisher(self) -> "EndedJobPublisher":
        """The service that sends the follow-ups and the event of an ended job."""
        from oncely.publish.publisher import EndedJobPublisher

        return EndedJobPublisher(
            registry=self.registry,
            dependencies=self.ports,
            store=self.ports.job_store(),
            event_bus=self.ports.event_bus,
            sender_for_queue=self.ports.message_sender,
            clock=self.ports.clock,
            row_retention=self._row_retention,
        )

    @cached_property
    def reconciler(self) -> "Reconciler":
        """The service that resolves one job."""
        from oncely.reconcile.reconciler import Reconciler

        return Reconciler(
            registry=self.registry,
            dependencies=self.ports,
            store=self.ports.job_store(),
            clock=self.ports.clock,
            jitter=self.ports.jitter,
            sender_for_queue=self.ports.message_sender,
            publisher=self.publisher,
            guard=self.ports.table_guard,
        )

    @cached_property
    def review_alerter(self) -> "ReviewAlerter":
        """The service that alerts the operator about jobs that need review."""
        from oncely.reconcile.reconciler import ACTOR
        from oncely.run.review_alerts import ReviewAlerter

        return ReviewAlerter(
            store=self.ports.job_store(),
            notifier=self.ports.notifier,
            clock=self.ports.clock,
            actor=ACTOR,
            stack=self.settings.stack_name,
            jitter=self.ports.jitter,
        )

    @cached_property
    def group_resolver(self) -> "GroupResolver":
        """The service that resolves a group of jobs concurrently."""
        from oncely.reconcile.resolve_group import GroupResolver

        return GroupResolver(
            reconciler=self.reconciler,
            alerter=self.review_alerter,
            concurrency=self.settings.sweep_jobs_at_once,
        )

    @cached_property
    def due_work_finder(self) -> "DueWorkFinder":
        """The service that finds due rows and messages that were never sent."""
        from oncely.reconcile.find_due_work import DueWorkFinder

        detecting = [one for one in self.registry if one.detects_missing_jobs()]
        return DueWorkFinder(
            registry=ContractRegistry(detecting),
            dependencies=self.ports,
            store=self.ports.job_store(),
            index=self.ports.due_index,
            leases=self.ports.sweep_leases,
            clock=self.ports.clock,
            guard=self.ports.table_guard,
            page_size=self.settings.sweep_page_size,
        )

    @cached_property
    def sweep_finisher(self) -> "SweepFinisher":
        """The service that ends a sweep, and starts the next one if more is due."""
        from oncely.reconcile.resolve_group import SweepFinisher

        return SweepFinisher(leases=self.ports.sweep_leases, sweeps=self.ports.sweeps)

    @cached_property
    def enqueuer(self) -> "Enqueuer":
        """The producer's service: it writes the row, then sends the message."""
        from oncely.enqueue.enqueuer import Enqueuer

        return Enqueuer(
            registry=self.registry,
            store=self.ports.job_store(),
            windows=self.ports.unique_windows,
            sender_for_queue=self.ports.message_sender,
            clock=self.ports.clock,
            new_token=self.ports.new_token,
        )

    @cached_property
    def job_queries(self) -> "JobQueries":
        """The read-only service that searches and lists jobs."""
        from oncely.operate.job_queries import JobQueries

        return JobQueries(
            registry=self.registry,
            store=self.ports.job_store(),
            job_index=self.ports.job_index,
            due_index=self.ports.due_index,
            finished_jobs=self.ports.finished_jobs,
            clock=self.ports.clock,
        )

    @cached_property
    def repairer(self) -> "Repairer":
        """The service that repairs one job for an operator."""
        from oncely.operate.repairer import Repairer

        return Repairer(reconciler=self.reconciler, enqueuer=self.enqueuer)

    @property
    def _row_retention(self) -> timedelta:
        self.settings.require("retention_days")
        return timedelta(days=self.settings.retention_days or 0)
