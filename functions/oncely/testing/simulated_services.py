"""The shipped adapters of one simulation, over AWS and providers in memory."""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, cached_property
from typing import Any, Final, TypeVar

from oncely.alerts.budget import Alert
from oncely.alerts.budgeted_notifier import SnsNotifier
from oncely.contracts.job import AnyJob, JobSettings, providers_of
from oncely.contracts.settings import Settings, configured_providers_of
from oncely.core.ended_jobs import PROOF_RETENTION
from oncely.core.errors import NotConfiguredError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.table_guard import TableGuard
from oncely.gates.gate import SNAPSHOT_AGE, Gate
from oncely.operate.erase import ErasableArchive
from oncely.operate.own_tables import GATES, JOBS
from oncely.plugins.provider import AnyProvider, Network, ProviderSettings
from oncely.ports import Ports
from oncely.testing.in_process import base_url
from oncely.testing.interception import Interceptor
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.services import MemoryBucket, MemoryQueue, PublishedMessage
from oncely.testing.memory_aws.wire import WireClients
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import START, WallClock

# These log what a schedule makes fail: its trace shows that already. The functions' own logger has
# the name `oncely`, so that one stays as it is.
for _part in ("oncely.alerts", "oncely.gates"):
    logging.getLogger(_part).addHandler(logging.NullHandler())
T = TypeVar("T")
S = TypeVar("S", bound=JobSettings)
_UNLIMITED: Final = {"effects_per_second": math.inf, "lookups_per_second": math.inf}
# The account and queue of events.
ACCOUNT: Final = "123456789012"
QUEUE, REJECTS, TOPIC, BUS, ARCHIVE = "events", "rejects", "alerts", "bus", "archive"


@cache
def _wire_clients() -> WireClients:
    return WireClients(MemoryAws(now=lambda: START))


def _shared_clients(aws: MemoryAws) -> WireClients:
    """The clients of this process. One schedule runs at a time, with its own account."""
    clients = _wire_clients()
    clients.account = aws
    return clients


def settings_for(
    contracts: tuple[type[AnyJob], ...], providers: Mapping[str, ProviderSettings]
) -> Settings:
    """Return the settings of a function that runs these contracts."""
    tables = {name for one in contracts for name in one.table_names()}
    settings = Settings(
        retention_days=90,
        sweep_jobs_at_once=1,
        event_account=ACCOUNT,
        queue_url=QUEUE,
        jobs_table=JOBS,
        gates_table=GATES,
        rejects_queue_url=REJECTS,
        alert_topic_arn=TOPIC,
        event_bus_name=BUS,
        archive_bucket=ARCHIVE,
        tables={name: name for name in tables},
        table_retention_days=dict.fromkeys(tables, PROOF_RETENTION.days),
        queues={name: QUEUE for one in contracts for name in (one.queue, *one.sends_to)},
        providers=providers,
    )
    # More shards would add calls, but no behavior.
    return settings.model_copy(update={"due_shards": 1})


@dataclass(frozen=True)
class _ObservedNotifier(SnsNotifier):
    """Knows which jobs the alerts were about that SNS accepted."""

    published: list[PublishedMessage]
    alerted: set[str] = field(default_factory=set)

    def notify(self, alert: Alert) -> bool:
        delivered = super().notify(alert)
        if any(one.message == alert.text for one in self.published):
            self.alerted.update(alert.names)
        return delivered


class SimulatedPorts(Ports):
    """The ports that are deployed. Time, chance, AWS and the network are the schedule's."""

    def __init__(
        self,
        scenario: Scenario,
        interceptor: Interceptor,
        aws: MemoryAws,
        *,
        network: Network,
        models: Mapping[str, ProviderSandbox],
        queue: MemoryQueue,
    ) -> None:
        plugins = configured_providers_of(scenario.contracts)
        settings = {plugin.name: _provider_settings(plugin, models, scenario) for plugin in plugins}
        rule = {
            "second_operator_above": scenario.second_operator_above,
            "max_alerts_per_hour": scenario.max_alerts_per_hour,
        }
        ours = settings_for(scenario.contracts, settings).model_copy(update=rule)
        clients = _shared_clients(aws) if scenario.through_botocore else aws.clients
        super().__init__(ours, clients)
        self.aws = aws
        self.aws.sqs.queues = {QUEUE: queue, REJECTS: MemoryQueue()}
        self.aws.sns.topics, self.aws.events.buses = {TOPIC}, {BUS}
        self.aws.s3.buckets = {ARCHIVE: MemoryBucket(versioned=True)}
        self.interceptor, self.scenario = interceptor, scenario
        self.clock = interceptor  # reading it is a call
        self.new_token = interceptor.schedule.new_token
        self.new_identity = lambda: "another"
        self.jitter = lambda: 0.0
        self.sleep = lambda _: None
        self.network = network
        self._models = models
        self._secrets_from = START + scenario.secrets_missing_for
        self._published_count = 0
        self._published: set[tuple[JobKey, Status]] = set()

    @property
    def alerted(self) -> set[str]:
        """The jobs that operators were alerted about."""
        return self.notifier.alerted

    @property
    def published(self) -> set[tuple[JobKey, Status]]:
        """The key and status of each job whose end was published."""
        events = self.aws.events.events
        for event in events[self._published_count :]:
            if event["DetailType"].startswith("job "):
                detail = json.loads(event["Detail"])
                self._published.add((JobKey(detail["job_key"]), Status(detail["status"])))
        self._published_count = len(events)
        return self._published

    @cached_property
    def notifier(self) -> _ObservedNotifier:
        return _ObservedNotifier(self.clients, TOPIC, self.aws.sns.published)

    @cached_property
    def gate(self) -> Gate:
        # Without a cache if a schedule may intervene at each check.
        is_gated = self.scenario.closes_gate is not None
        return Gate(
            table=self.gate_table,
            clock=WallClock(self.interceptor.schedule),
            settings=self.settings.providers,
            snapshot_age=timedelta(0) if is_gated else SNAPSHOT_AGE,
            on_error=lambda _: None,
        )

    @cached_property
    def table_guard(self) -> TableGuard:
        return TableGuard(self.table_identity, WallClock(self.interceptor.schedule))

    def failed_requests(self) -> object:
        """Return the recent results of each gate with a failure, for a digest."""
        return {
            name: list(one.results)
            for name, one in self.gate._local.items()  # noqa: SLF001  # for a digest only
            if any(failed for _, failed in one.results)
        }

    def archive_state(self) -> object:
        """Return every version in the archive, for a digest."""
        objects = self.aws.s3.buckets[ARCHIVE].objects
        return {
            key: [(one.etag, one.body is None) for one in all_] for key, all_ in objects.items()
        }

    @cached_property
    def erasable_archive(self) -> ErasableArchive:
        # One object at a time: a schedule switches greenlets, not threads.
        return replace(super().erasable_archive, max_concurrency=1)

    def secret(self, name: str) -> str:
        if self.interceptor.schedule.now < self._secrets_from:
            raise NotConfiguredError(f"the secret {name!r} is empty: store the API key in it")
        plugins = providers_of(self.scenario.contracts)
        owner = next((one.name for one in plugins if one.secret_name == name), name)
        model = self._models.get(owner)
        key = f"secret of {name}" if model is None else model.api_key
        if not self.scenario.through_botocore:
            return key
        self.aws.secrets.values[name] = key
        return self._read_secret(name, name)  # without the lock, which would stop other greenlets

    def job_settings(self, settings_type: type[S]) -> S:
        for given in self.scenario.job_settings:
            if isinstance(given, settings_type):
                return given
        name = settings_type.__name__
        raise NotConfiguredError(f"no job declares {name}: add `settings = {name}` to it")

    def is_configured(self, plugin: AnyProvider) -> bool:
        return plugin.name in self._models


def _provider_settings(
    plugin: AnyProvider, models: Mapping[str, ProviderSandbox], scenario: Scenario
) -> ProviderSettings:
    ours: dict[str, Any] = dict(_UNLIMITED)
    if "api_base" in plugin.settings_type.model_fields:
        ours["api_base"] = base_url(plugin.name) + plugin.local_path
    given = scenario.provider_settings.get(plugin.name)
    if given is not None:
        return given.model_copy(update=ours)
    model = models.get(plugin.name)
    own = {} if model is None else model.settings
    return plugin.settings_type.model_validate({**own, **ours})
