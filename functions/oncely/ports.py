"""Every port on AWS, each built on first use from the settings."""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oncely.aws.clients import AwsClients
from oncely.contracts.job import JobSettings
from oncely.contracts.settings import Settings
from oncely.core.aws_errors import translated
from oncely.core.errors import NotConfiguredError
from oncely.core.schedule import Clock
from oncely.core.store import JobStore
from oncely.core.text import truncate_to_milliseconds
from oncely.plugins.provider import INTERNET, AnyProvider, Provider, ProviderAccess

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

    from oncely.alerts.budgeted_notifier import DynamoAlertBudget, SnsNotifier
    from oncely.aws.business_tables import BusinessTable
    from oncely.aws.objects import S3Objects
    from oncely.aws.sqs import MessageSender, MessageSource, RejectQueue
    from oncely.core.inserter import JobInserter
    from oncely.core.table_guard import DynamoTableIdentity, TableGuard
    from oncely.gates.gate import Gate
    from oncely.gates.table import GateTable
    from oncely.history.archive import HistoryArchive
    from oncely.history.erasure_log import ErasureLog
    from oncely.history.sources import RowScan, TableGenerationReader
    from oncely.operate.bulk_repairer import BulkRuns
    from oncely.operate.daily_audit import AuditReports
    from oncely.operate.erase import ErasableArchive
    from oncely.operate.job_index import JobIndex
    from oncely.operate.overview import CloudWatchHourlyMetrics, SqsQueueDepths
    from oncely.operate.page_access import CognitoUserDirectory
    from oncely.operate.rejects import RejectArchive
    from oncely.publish.publisher import EventBus
    from oncely.reconcile.due_index import DueIndex
    from oncely.reconcile.sweeps import SweepLeases, Sweeps

T = TypeVar("T")
S = TypeVar("S", bound=JobSettings)

# A rotated key is picked up within this time, without a deployment.
SECRET_CACHE_TTL: Final = timedelta(minutes=5)
new_owner_token: Final = partial(secrets.token_urlsafe, 16)  # 128 random bits
# 64 random bits are unique, and short enough for every idempotency key.
new_identity: Final = partial(secrets.token_hex, 8)
random_jitter: Final = secrets.SystemRandom().random  # a number from [0, 1)


class SystemClock:
    """The wall clock, which is also correct after a freeze."""

    def now(self) -> datetime:
        return truncate_to_milliseconds(datetime.now(UTC))


class Ports:
    """The ports of one function or command; safe to share between threads.

    An adapter is imported with its first use: a function pays only for what it needs. Its setting
    is read before its client is built, so a missing one is reported by name.
    """

    def __init__(self, settings: Settings, clients: AwsClients | None = None) -> None:
        self.clock: Clock = SystemClock()
        self.jitter: Callable[[], float] = random_jitter
        self.new_token: Callable[[], str] = new_owner_token
        self.new_identity: Callable[[], str] = new_identity
        self.sleep: Callable[[float], None] = time.sleep
        self.network = INTERNET  # to the providers
        self.settings = settings
        self.clients = clients or AwsClients()
        self._secret_lock = threading.Lock()
        # A rotated API key builds a new client; the one before may still be in use.
        self._connect = lru_cache(maxsize=8)(self._connect_provider)

    def preload(self, providers: tuple[AnyProvider, ...]) -> None:
        for plugin in providers:
            if plugin.secret_name:
                _ = self._read_secret
            for module in plugin.preload:
                import_module(module)

    # What contracts use.

    def job_store(self) -> JobStore:
        return self._job_store

    def table(self, name: str) -> "BusinessTable":
        from oncely.aws.business_tables import BusinessTable

        self.settings.require(f"tables.{name}")
        return BusinessTable(
            self.clients.dynamodb,
            self.settings.tables[name],
            name,
            columns=self.settings.table_columns.get(name, {}),
            may_lack_indexes=name in self.settings.existing_tables,
        )

    def retention(self, table: str) -> timedelta:
        self.settings.require(f"table_retention_days.{table}")
        return timedelta(days=self.settings.table_retention_days[table])

    def message_sender(self, queue: str) -> "MessageSender":
        from oncely.aws.sqs import MessageSender

        if queue == self.settings.queue_name:
            return MessageSender(clients=self.clients, queue_url=self._get("queue_url"))
        self.settings.require(f"queues.{queue}")
        return MessageSender(clients=self.clients, queue_url=self.settings.queues[queue])

    def secret(self, name: str) -> str:
        self.settings.require(f"secrets.{name}")
        with self._secret_lock:
            return self._read_secret(self.settings.secrets[name], f"the secret {name!r}")

    def job_settings(self, settings_type: type[S]) -> S:
        return self.settings.parse_job_settings(settings_type)

    def provider(self, plugin: Provider[T, Any]) -> T:
        name = plugin.secret_name
        client: T = self._connect(plugin, self.secret(name) if name else "")
        return client

    def is_configured(self, plugin: AnyProvider) -> bool:
        return plugin.is_configured(self._provider_settings(plugin))

    # What services use.

    @cached_property
    def table_guard(self) -> "TableGuard":
        from oncely.core.table_guard import TableGuard

        return TableGuard(self.table_identity, self.clock)

    @cached_property
    def gate(self) -> "Gate":
        from oncely.gates.gate import Gate

        return Gate(table=self.gate_table, clock=self.clock, settings=self.settings.providers)

    @cached_property
    def gate_table(self) -> "GateTable":
        from oncely.gates.table import GateTable

        return GateTable(table=self._get("gates_table"), client=self.clients.dynamodb)

    @cached_property
    def table_identity(self) -> "DynamoTableIdentity":
        from oncely.core.table_guard import DynamoTableIdentity

        return DynamoTableIdentity(table=self._get("jobs_table"), client=self.clients.dynamodb)

    @cached_property
    def table_generation(self) -> "TableGenerationReader":
        from oncely.history.sources import TableGenerationReader

        return TableGenerationReader(table=self._get("jobs_table"), client=self.clients.dynamodb)

    @cached_property
    def notifier(self) -> "SnsNotifier":
        from oncely.alerts.budgeted_notifier import SnsNotifier

        return SnsNotifier(self.clients, self._get("alert_topic_arn"))

    @cached_property
    def alert_budget(self) -> "DynamoAlertBudget":
        from oncely.alerts.budgeted_notifier import DynamoAlertBudget

        return DynamoAlertBudget(table=self._get("jobs_table"), client=self.clients.dynamodb)

    @cached_property
    def message_source(self) -> "MessageSource":
        from oncely.aws.sqs import MessageSource

        return MessageSource(clients=self.clients, queue_url=self._get("queue_url"))

    @cached_property
    def reject_queue(self) -> "RejectQueue":
        from oncely.aws.sqs import RejectQueue

        rejects_url = self._get("rejects_queue_url")
        # Operators know the short name of a worker's queue.
        source = self.settings.queue_name or self._get("queue_url").rsplit("/", 1)[-1]
        return RejectQueue(clients=self.clients, rejects_url=rejects_url, source=source)

    @cached_property
    def event_bus(self) -> "EventBus":
        from oncely.publish.publisher import EventBus

        return EventBus(name=self._get("event_bus_name"), client=self.clients.events)

    @cached_property
    def due_index(self) -> "DueIndex":
        from oncely.reconcile.due_index import DueIndex

        return DueIndex(
            table=self._get("jobs_table"),
            client=self.clients.dynamodb,
            shards=self.settings.due_shards,
        )

    @cached_property
    def sweep_leases(self) -> "SweepLeases":
        from oncely.reconcile.sweeps import SweepLeases

        return SweepLeases(table=self._get("jobs_table"), client=self.clients.dynamodb)

    @cached_property
    def sweeps(self) -> "Sweeps":
        from oncely.reconcile.sweeps import Sweeps

        return Sweeps(machine_arn=self._get("reconciler_arn"), client=self.clients.states)

    @cached_property
    def job_inserter(self) -> "JobInserter":
        from oncely.core.inserter import JobInserter

        return JobInserter(job_store=self._job_store, client=self.clients.dynamodb)

    @cached_property
    def job_index(self) -> "JobIndex":
        from oncely.operate.job_index import JobIndex

        return JobIndex(table=self._get("jobs_table"), client=self.clients.dynamodb)

    @cached_property
    def _archive_objects(self) -> "S3Objects":
        from oncely.aws.objects import S3Objects

        return S3Objects(bucket=self._get("archive_bucket"), client=self.clients.s3)

    @cached_property
    def history(self) -> "HistoryArchive":
        from oncely.history.archive import HistoryArchive

        return HistoryArchive(self._archive_objects)

    @cached_property
    def erasure_log(self) -> "ErasureLog":
        from oncely.history.erasure_log import ErasureLog

        return ErasureLog(self._archive_objects)

    @cached_property
    def erasable_archive(self) -> "ErasableArchive":
        from oncely.operate.erase import ERASER_CHECK, ErasableArchive

        return ErasableArchive(replace(self._archive_objects, check=ERASER_CHECK))

    @cached_property
    def stored_rejects(self) -> "RejectArchive":
        from oncely.operate.rejects import RejectArchive

        return RejectArchive(self._archive_objects)

    @cached_property
    def audit_reports(self) -> "AuditReports":
        from oncely.operate.daily_audit import AuditReports

        return AuditReports(self._archive_objects)

    @cached_property
    def hourly_metrics(self) -> "CloudWatchHourlyMetrics":
        from oncely.operate.overview import CloudWatchHourlyMetrics

        return CloudWatchHourlyMetrics(
            service=self._get("stack_name"), client=self.clients.cloudwatch
        )

    @cached_property
    def queue_depths(self) -> "SqsQueueDepths":
        from oncely.operate.overview import SqsQueueDepths

        urls = {
            **self.settings.queues,
            "dead letters": self._get("dead_letter_queue_url"),
            "rejects": self._get("rejects_queue_url"),
        }
        return SqsQueueDepths(queue_urls=urls, client=self.clients.sqs)

    @cached_property
    def user_directory(self) -> "CognitoUserDirectory":
        from oncely.operate.page_access import CognitoUserDirectory

        return CognitoUserDirectory(pool_id=self._get("user_pool_id"), client=self.clients.users)

    def access_log_key(self) -> str:
        secret = self._get("access_log_secret")
        with self._secret_lock:
            return self._read_secret(secret, "the secret of the access log")

    @cached_property
    def bulk_runs(self) -> "BulkRuns":
        from oncely.operate.bulk_repairer import BulkRuns

        return BulkRuns(self._archive_objects)

    @cached_property
    def row_scan(self) -> "RowScan":
        from oncely.history.sources import RowScan

        return RowScan(table=self._get("jobs_table"), client=self.clients.dynamodb)

    @cached_property
    def _job_store(self) -> JobStore:
        return JobStore(
            table=self._get("jobs_table"),
            client=self.clients.dynamodb,
            tables=self.settings.tables,
            table_columns=self.settings.table_columns,
            due_shards=self.settings.due_shards,
            sleep=self.sleep,
        )

    @cached_property
    def _read_secret(self) -> Callable[[str, str], str]:
        return cached_secret_reader(self.clients.secrets)

    def _connect_provider(self, plugin: AnyProvider, api_key: str) -> Any:  # noqa: ANN401  # of any provider
        return plugin.connect(
            ProviderAccess(
                settings=self._provider_settings(plugin),
                api_key=api_key,
                gate=self.gate.requests(plugin),
                network=self.network,
                new_aws_client=self.clients.new_client,
            )
        )

    def _provider_settings(self, plugin: AnyProvider) -> Any:  # noqa: ANN401  # the plug-in's own type
        try:
            return self.settings.providers[plugin.name]
        except KeyError:
            raise NotConfiguredError(
                f"no job of this function uses the provider {plugin.name!r}: add it to the "
                "job's `provider` or `settings_of`"
            ) from None

    def _get(self, field: str) -> str:
        self.settings.require(field)
        return str(getattr(self.settings, field))


def cached_secret_reader(client: "SecretsManagerClient") -> Callable[[str, str], str]:
    """A function that reads a secret: by its name or ARN, and what errors call it."""
    found: dict[str, tuple[str, float]] = {}

    def read(secret_id: str, secret: str) -> str:
        value, until = found.get(secret_id, ("", 0.0))
        if time.time() < until:
            return value
        key = fetch(secret_id, secret)
        found[secret_id] = key, time.time() + SECRET_CACHE_TTL.total_seconds()
        return key

    def fetch(secret_id: str, secret: str) -> str:
        check = "that it exists, that it holds the key and that this role may read it"
        with translated(secret, name=secret_id, check=check):
            value = client.get_secret_value(SecretId=secret_id).get("SecretString", "")
        if not value.strip():
            raise NotConfiguredError(f"{secret} is empty: store the API key in it")
        key = value.strip()
        if not (key.isascii() and key.isprintable()):
            # It would break the request's header, which would look like a lost response.
            raise NotConfiguredError(
                f"{secret} contains a line break or an invalid character: store the API key again"
            )
        return key

    return read
