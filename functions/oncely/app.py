"""The composition root: builds every service from settings, job types and ports."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from oncely.aws.clients import AwsClients
from oncely.aws.code_stamp import check_engine_stamp, check_job_stamp
from oncely.contracts.job import AnyJob, providers_of
from oncely.contracts.registry import JobRegistry
from oncely.contracts.settings import Settings
from oncely.core.errors import NotConfiguredError
from oncely.ports import Ports

if TYPE_CHECKING:
    from oncely.alerts.budgeted_notifier import BudgetedNotifier
    from oncely.alerts.review_alerts import ReviewAlerter
    from oncely.core.run_job import JobRunner
    from oncely.enqueue.enqueuer import Enqueuer
    from oncely.history.writer import Backfill, HistoryWriter
    from oncely.operate.audit_payments import PaymentAuditor
    from oncely.operate.bulk_repairer import BulkRepairer
    from oncely.operate.daily_audit import DailyAudit
    from oncely.operate.erase import Eraser
    from oncely.operate.job_queries import JobQueries
    from oncely.operate.operator_sender import OperatorSender
    from oncely.operate.overview import Overview
    from oncely.operate.page_access import TextDigester
    from oncely.operate.pauses import PauseSwitch
    from oncely.operate.provider_queries import ProviderQueries
    from oncely.operate.reject_resender import RejectResender
    from oncely.operate.rejects import RejectedMessages
    from oncely.operate.repairer import Repairer
    from oncely.operate.restore_proofs import ProofRestorer
    from oncely.operate.set_up_table import TableInitializer
    from oncely.ports import Ports
    from oncely.publish.publisher import EndedJobPublisher
    from oncely.reconcile.event_intake import EventIntake
    from oncely.reconcile.find_due_work import DueWorkFinder
    from oncely.reconcile.reconciler import Reconciler
    from oncely.reconcile.resolve_group import GroupResolver
    from oncely.reconcile.webhooks import WebhookReceiver
    from oncely.run.dead_letters import DeadLetterHandler
    from oncely.run.process_batch import BatchProcessor


@dataclass(frozen=True)
class App:
    """The services of Oncely, each imported and built on first use.

    app_from_env(os.environ, jobs_from_env(os.environ)).batch_processor
    """

    settings: Settings
    registry: JobRegistry
    ports: Ports

    @cached_property
    def batch_processor(self) -> "BatchProcessor":
        """The worker of the queue in the settings."""
        from oncely.run.process_batch import BatchProcessor

        self.settings.require("queue_name", "queue_url")
        registry = self.registry.for_queue(self.settings.queue_name or "")
        contracts = tuple(registry)
        if not contracts:
            # Otherwise every message would be rejected as unknown.
            raise NotConfiguredError(
                f"no contract uses the queue {self.settings.queue_name!r}: correct QUEUE_NAME"
            )
        providers = tuple(filter(self.ports.is_configured, providers_of(registry)))
        self.settings.require_for_worker(contracts, providers)
        for settings_type in filter(None, (one.settings for one in contracts)):
            self.ports.job_settings(settings_type)  # a missing one is reported before the first job
        self.ports.preload(providers)
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
        from oncely.core.run_job import ACTOR, JobRunner

        return JobRunner(
            parse=self.registry.connected(self.ports),
            store=self.ports.job_store(),
            alerter=self.review_alerter(ACTOR),
            clock=self.ports.clock,
            new_token=self.ports.new_token,
            jitter=self.ports.jitter,
            guard=self.ports.table_guard,
            gate=self.ports.gate,
            resubmission_limit=self.settings.resubmission_limit,
            row_retention=self.settings.row_retention,
        )

    @cached_property
    def notifier(self) -> "BudgetedNotifier":
        """The channel to the operator that every service uses."""
        from oncely.alerts.budgeted_notifier import BudgetedNotifier

        return BudgetedNotifier(
            channel=self.ports.notifier.notify,
            budget=self.ports.alert_budget,
            clock=self.ports.clock,
            max_alerts=self.settings.max_alerts_per_hour,
        )

    @cached_property
    def dead_letter_handler(self) -> "DeadLetterHandler":
        """The service that resolves the jobs of dead letters to a known status."""
        from oncely.run.dead_letters import DeadLetterHandler

        return DeadLetterHandler(self)

    @cached_property
    def publisher(self) -> "EndedJobPublisher":
        """The service that sends the follow-ups and the event of an ended job."""
        from oncely.publish.publisher import EndedJobPublisher

        return EndedJobPublisher(
            registry=self.registry,
            tools=self.ports,
            store=self.ports.job_store(),
            event_bus=self.ports.event_bus,
            sender_for_queue=self.ports.message_sender,
            clock=self.ports.clock,
            row_retention=self.settings.row_retention,
        )

    @cached_property
    def reconciler(self) -> "Reconciler":
        """The service that resolves one job."""
        from oncely.reconcile.reconciler import Reconciler

        return Reconciler(
            registry=self.registry,
            tools=self.ports,
            store=self.ports.job_store(),
            clock=self.ports.clock,
            jitter=self.ports.jitter,
            publisher=self.publisher,
            guard=self.ports.table_guard,
            gate=self.ports.gate,
        )

    @cached_property
    def group_resolver(self) -> "GroupResolver":
        """The service that resolves a group of jobs concurrently."""
        from oncely.reconcile.reconciler import ACTOR
        from oncely.reconcile.resolve_group import GroupResolver

        return GroupResolver(
            reconciler=self.reconciler,
            alerter=self.review_alerter(ACTOR),
            concurrency=self.settings.sweep_jobs_at_once,
        )

    @cached_property
    def due_work_finder(self) -> "DueWorkFinder":
        """The service that finds due rows and messages that were never sent."""
        from oncely.reconcile.find_due_work import DueWorkFinder

        return DueWorkFinder(self)

    @cached_property
    def event_intake(self) -> "EventIntake":
        """The service that receives provider events."""
        from oncely.reconcile.event_intake import EventIntake

        return EventIntake.from_settings(self.settings, self.group_resolver)

    @cached_property
    def webhook_receiver(self) -> "WebhookReceiver":
        """The service that verifies what arrives at the HTTPS endpoint for events."""
        from oncely.reconcile.webhooks import WebhookReceiver

        return WebhookReceiver.from_settings(self.settings, self.registry, self.ports)

    @cached_property
    def enqueuer(self) -> "Enqueuer":
        """The producer's service: it writes the row, then sends the message."""
        from oncely.enqueue.enqueuer import Enqueuer

        return Enqueuer(
            registry=self.registry,
            store=self.ports.job_store(),
            inserter=self.ports.job_inserter,
            sender_for_queue=self.ports.message_sender,
            clock=self.ports.clock,
            new_token=self.ports.new_token,
        )

    @cached_property
    def job_queries(self) -> "JobQueries":
        """The read-only service that searches and lists jobs."""
        from oncely.operate.job_queries import JobQueries

        return JobQueries(self)

    @cached_property
    def overview(self) -> "Overview":
        """The read-only service of the overview."""
        from oncely.operate.overview import Overview

        return Overview(self)

    @cached_property
    def provider_queries(self) -> "ProviderQueries":
        """The read-only service that asks the providers about jobs."""
        from oncely.operate.provider_queries import ProviderQueries

        return ProviderQueries(self)

    @cached_property
    def rejected_messages(self) -> "RejectedMessages":
        """The read-only service that lists rejected messages."""
        from oncely.operate.rejects import RejectedMessages

        return RejectedMessages(self)

    @cached_property
    def reject_resender(self) -> "RejectResender":
        """The service that resends rejected messages for an operator."""
        from oncely.operate.reject_resender import RejectResender

        return RejectResender(self)

    @cached_property
    def operator_sender(self) -> "OperatorSender":
        """The service that sends messages for an operator."""
        from oncely.operate.operator_sender import OperatorSender

        return OperatorSender(self)

    @cached_property
    def payment_auditor(self) -> "PaymentAuditor":
        """The read-only service that compares our jobs with the providers' lists."""
        from oncely.operate.audit_payments import PaymentAuditor

        return PaymentAuditor(app=self)

    @cached_property
    def daily_audit(self) -> "DailyAudit":
        """The service that audits the payments of the day before."""
        from oncely.operate.daily_audit import DailyAudit

        return DailyAudit(self)

    @cached_property
    def text_digester(self) -> "TextDigester":
        """The service that keeps typed text out of the access log."""
        from oncely.operate.page_access import TextDigester

        return TextDigester(self.ports.access_log_key)

    @cached_property
    def repairer(self) -> "Repairer":
        """The service that repairs one job for an operator."""
        from oncely.operate.repairer import Repairer

        return Repairer(self)

    @cached_property
    def pause_switch(self) -> "PauseSwitch":
        """The service that pauses and resumes effects for an operator."""
        from oncely.operate.pauses import PauseSwitch

        return PauseSwitch(self)

    @cached_property
    def bulk_repairer(self) -> "BulkRepairer":
        """The service that repairs many jobs."""
        from oncely.operate.bulk_repairer import BulkRepairer

        return BulkRepairer(self)

    @cached_property
    def history_writer(self) -> "HistoryWriter":
        """The service that writes the changes of rows to the history."""
        from oncely.history.writer import HistoryWriter

        return HistoryWriter(self.ports.history, self.ports.erasure_log, self.ports.clock)

    @cached_property
    def backfill(self) -> "Backfill":
        """The service that closes gaps in the history with a scan of the table."""
        from oncely.history.writer import Backfill

        return Backfill(app=self)

    @cached_property
    def table_initializer(self) -> "TableInitializer":
        """The service that gives an empty job table its identity."""
        from oncely.operate.set_up_table import TableInitializer

        return TableInitializer(self.ports.table_identity, self.ports.new_identity)

    @cached_property
    def proof_restorer(self) -> "ProofRestorer":
        """The service that opens a job table that replaces a lost one."""
        from oncely.operate.restore_proofs import ProofRestorer

        return ProofRestorer(app=self)

    @cached_property
    def eraser(self) -> "Eraser":
        """The service that erases personal data."""
        from oncely.operate.erase import Eraser

        return Eraser(app=self)

    def review_alerter(self, actor: str) -> "ReviewAlerter":
        """Return the service that alerts the operator about jobs that need review."""
        from oncely.alerts.review_alerts import ReviewAlerter

        return ReviewAlerter(
            store=self.ports.job_store(),
            notifier=lambda: self.notifier,
            clock=self.ports.clock,
            actor=actor,
            stack=self.settings.stack_name,
            can_look_up=self.registry.can_look_up,
            jitter=self.ports.jitter,
        )


def app_from_env(
    environ: Mapping[str, str],
    jobs: Iterable[type[AnyJob]] = (),
    *,
    clients: AwsClients | None = None,
) -> App:
    """The app on AWS with the settings of this environment."""
    jobs = tuple(jobs)
    settings = Settings.from_env(environ, jobs)
    check_engine_stamp(settings.engine_stamp)
    code = Path(environ.get("LAMBDA_TASK_ROOT", ""))
    check_job_stamp(settings.job_stamp, code=code, modules=(one.__module__ for one in jobs))
    return App(settings, JobRegistry(jobs), Ports(settings, clients))
