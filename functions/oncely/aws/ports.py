"""Every port on AWS, each built on first use from the settings."""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from oncely.app import App
from oncely.aws.clients import AwsClients
from oncely.aws.dynamodb_job_store import DynamoJobStore
from oncely.aws.system import SystemClock, new_owner_token, random_jitter
from oncely.contract import AnyContract
from oncely.domain.errors import NotConfiguredError
from oncely.http.pace import RateLimiter
from oncely.provider import AnyProvider, Provider, ProviderAccess
from oncely.registry import ContractRegistry
from oncely.settings import Settings

if TYPE_CHECKING:
    from oncely.aws.business_tables import DynamoBusinessTable
    from oncely.aws.deployment_identity import DynamoTableIdentity
    from oncely.aws.dynamodb_due_index import DynamoDueIndex
    from oncely.aws.dynamodb_job_index import DynamoJobIndex
    from oncely.aws.dynamodb_sweep_leases import DynamoSweepLeases
    from oncely.aws.dynamodb_unique_windows import DynamoUniqueWindows
    from oncely.aws.event_bridge import EventBridgeBus
    from oncely.aws.row_scan import DynamoRowScan
    from oncely.aws.s3_archive import S3Archive
    from oncely.aws.s3_history import S3HistoryStore
    from oncely.aws.s3_history_reader import HistoryFinishedJobs, S3HistoryReader
    from oncely.aws.sns import SnsNotifier
    from oncely.aws.sqs import SqsMessageSender, SqsMessageSource, SqsRejectQueue
    from oncely.aws.step_functions import StepFunctionsSweeps
    from oncely.run.table_guard import CheckedTable

T = TypeVar("T")


class AwsPorts:
    """The ports of one function or command; safe to share between threads.

    An adapter is imported with its first use: a function pays only for what it needs.
    """

    clock = SystemClock()
    jitter = staticmethod(random_jitter)
    new_token = staticmethod(new_owner_token)

    def __init__(self, settings: Settings, clients: AwsClients | None = None) -> None:
        self.settings = settings
        self.clients = clients or AwsClients()
        self._secret_lock = threading.Lock()
        # A rotated API key builds a new client; the one before may still be in use.
        self._connect = lru_cache(maxsize=8)(self._connect_provider)
        self._rate_limiter = lru_cache(maxsize=None)(self._new_rate_limiter)

    def preload(self, providers: tuple[AnyProvider, ...]) -> None:
        _ = self._read_secret
        for plugin in providers:
            for module in plugin.preload:
                import_module(module)

    # What contracts use.

    def job_store(self) -> DynamoJobStore:
        return self._job_store

    def table(self, name: str) -> "DynamoBusinessTable":
        from oncely.aws.business_tables import DynamoBusinessTable

        self.settings.require(f"tables.{name}")
        return DynamoBusinessTable(self.clients.dynamodb, self.settings.tables[name])

    def message_sender(self, queue: str) -> "SqsMessageSender":
        from oncely.aws.sqs import SqsMessageSender

        if queue == self.settings.queue_name:
            return SqsMessageSender(client=self.clients.sqs, queue_url=self._get("queue_url"))
        self.settings.require(f"queues.{queue}")
        return SqsMessageSender(client=self.clients.sqs, queue_url=self.settings.queues[queue])

    def secret(self, name: str) -> str:
        self.settings.require(f"secrets.{name}")
        with self._secret_lock:
            return self._read_secret(self.settings.secrets[name])

    def provider(self, plugin: Provider[T, Any]) -> T:
        name = plugin.secret_name
        client: T = self._connect(plugin, self.secret(name) if name else "")
        return client

    def is_configured(self, plugin: AnyProvider) -> bool:
        return plugin.is_configured(self._provider_settings(plugin))

    # What services use.

    @cached_property
    def table_guard(self) -> "CheckedTable":
        from oncely.run.table_guard import CheckedTable

        return CheckedTable(self.table_identity, self.clock)

    @cached_property
    def table_identity(self) -> "DynamoTableIdentity":
        from oncely.aws.deployment_identity import DynamoTableIdentity

        return DynamoTableIdentity(self.clients.dynamodb, self._get("jobs_table"))

    @cached_property
    def notifier(self) -> "SnsNotifier":
        from oncely.aws.sns import SnsNotifier

        return SnsNotifier(self.clients.sns, self._get("alert_topic_arn"))

    @cached_property
    def message_source(self) -> "SqsMessageSource":
        from oncely.aws.sqs import SqsMessageSource

        return SqsMessageSource(client=self.clients.sqs, queue_url=self._get("queue_url"))

    @cached_property
    def reject_queue(self) -> "SqsRejectQueue":
        from oncely.aws.sqs import SqsRejectQueue

        rejects_url = self._get("rejects_queue_url")
        # The consumer of dead letters has no queue of its own in its settings.
        source = (self.settings.queue_url or "dead-letters").rsplit("/", 1)[-1]
        return SqsRejectQueue(client=self.clients.sqs, rejects_url=rejects_url, source=source)

    @cached_property
    def event_bus(self) -> "EventBridgeBus":
        from oncely.aws.event_bridge import EventBridgeBus

        return EventBridgeBus(self.clients.events, self._get("event_bus_name"))

    @cached_property
    def due_index(self) -> "DynamoDueIndex":
        from oncely.aws.dynamodb_due_index import DynamoDueIndex

        return DynamoDueIndex(
            self.clients.dynamodb, self._get("jobs_table"), self.settings.due_shards
        )

    @cached_property
    def sweep_leases(self) -> "DynamoSweepLeases":
        from oncely.aws.dynamodb_sweep_leases import DynamoSweepLeases

        return DynamoSweepLeases(self.clients.dynamodb, self._get("jobs_table"))

    @cached_property
    def sweeps(self) -> "StepFunctionsSweeps":
        from oncely.aws.step_functions import StepFunctionsSweeps

        return StepFunctionsSweeps(self.clients.states, self._get("reconciler_arn"))

    @cached_property
    def unique_windows(self) -> "DynamoUniqueWindows":
        from oncely.aws.dynamodb_unique_windows import DynamoUniqueWindows

        return DynamoUniqueWindows(self.clients.dynamodb, self._job_store)

    @cached_property
    def job_index(self) -> "DynamoJobIndex":
        from oncely.aws.dynamodb_job_index import DynamoJobIndex

        return DynamoJobIndex(self.clients.dynamodb, self._get("jobs_table"))

    @cached_property
    def finished_jobs(self) -> "HistoryFinishedJobs":
        from oncely.aws.s3_history_reader import HistoryFinishedJobs

        return HistoryFinishedJobs(self.history_reader)

    @cached_property
    def history_reader(self) -> "S3HistoryReader":
        from oncely.aws.s3_history_reader import S3HistoryReader

        return S3HistoryReader(self.clients.s3, self._get("archive_bucket"))

    @cached_property
    def history_store(self) -> "S3HistoryStore":
        from oncely.aws.s3_history import S3HistoryStore

        return S3HistoryStore(self.clients.s3, self._get("archive_bucket"))

    @cached_property
    def reject_archive(self) -> "S3Archive":
        from oncely.aws.s3_archive import S3Archive

        return S3Archive(self.clients.s3, self._get("archive_bucket"))

    @cached_property
    def row_scan(self) -> "DynamoRowScan":
        from oncely.aws.row_scan import DynamoRowScan

        return DynamoRowScan(self.clients.dynamodb, self._get("jobs_table"))

    @cached_property
    def _job_store(self) -> DynamoJobStore:
        return DynamoJobStore(
            table=self._get("jobs_table"),
            client=self.clients.dynamodb,
            tables=self.settings.tables,
            due_shards=self.settings.due_shards,
        )

    @cached_property
    def _read_secret(self) -> Callable[[str], str]:
        from oncely.aws.secrets_manager import cached_secret_reader

        return cached_secret_reader(self.clients.secrets)

    def _connect_provider(self, plugin: AnyProvider, api_key: str) -> Any:  # noqa: ANN401  # of any provider
        return plugin.connect(
            ProviderAccess(
                settings=self._provider_settings(plugin),
                api_key=api_key,
                rate_limiter=self._rate_limiter(plugin.name),
                new_aws_client=self.clients.new_client,
            )
        )

    def _new_rate_limiter(self, name: str) -> RateLimiter:
        return RateLimiter(self.settings.providers[name].reads_per_second)

    def _provider_settings(self, plugin: AnyProvider) -> Any:  # noqa: ANN401  # the plug-in's own type
        try:
            return self.settings.providers[plugin.name]
        except KeyError:
            raise NotConfiguredError(
                f"no contract of this function names the provider {plugin.name!r}: add it to the "
                "contract's resources"
            ) from None

    def _get(self, field: str) -> str:
        self.settings.require(field)
        return str(getattr(self.settings, field))


def app_from_env(environ: Mapping[str, str], jobs: Iterable[type[AnyContract]]) -> App:
    """The app on AWS with the settings of this environment."""
    jobs = tuple(jobs)
    settings = Settings.from_env(environ, jobs)
    return App(settings, ContractRegistry(jobs), AwsPorts(settings))
