"""The settings of a stage. Set one with `-c name=value` on the CDK's command line."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from oncely.contract import AnyContract
from oncely.domain.due import DUE_SHARDS
from oncely.provider import AnyProvider, ProviderSettings
from oncely.settings import pascal_case
from oncely_cdk.required_resources import RequiredResources

StageName = Literal["dev", "prod", "local"]
NonEmptyText = Annotated[str, Field(min_length=1)]
PositiveInt = Annotated[int, Field(ge=1)]

# Stack parameters of stage `local`: known when the engine runs, not at synthesis.
ENGINE_ADDRESS: Final = "EngineAddress"
PROVIDERS_ADDRESS: Final = "ProvidersAddress"

# Suffixes of settings about one table, secret or queue that a contract names.
_TABLE: Final = "_table"
_SECRET: Final = "_secret_arn"  # noqa: S105  # a suffix
_READ_ONLY_SECRET: Final = "_read_only_secret_arn"  # noqa: S105  # as above
_CONCURRENCY: Final = "_worker_concurrency"
_RATE: Final = "reads_per_second"  # divided among concurrent functions


class StageError(Exception):
    """The CDK context does not define a valid stage."""


class Stage(BaseModel):
    """Everything that can differ between two deployments of the stack."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StageName

    # Subscribed to the alert topic (default: no subscription).
    alert_email: NonEmptyText | None = None
    # The page that alarms link to.
    runbook_url: NonEmptyText = "docs/operations.md"

    # Existing resources, by short name. The stack creates the others.
    existing_tables: Mapping[str, NonEmptyText] = {}
    jobs_stream_arn: NonEmptyText | None = None  # required with an existing job table
    existing_secrets: Mapping[str, NonEmptyText] = {}
    # Read-only API keys for the reconciler and the admin page (default: the worker's).
    read_only_secrets: Mapping[str, NonEmptyText] = {}

    # The worker of each queue. `batch_concurrency` jobs of a batch run at the same time.
    worker_timeout_seconds: PositiveInt = 120
    visibility_timeout_seconds: PositiveInt = 720  # 6 timeouts, as Lambda requires
    batch_size: Annotated[int, Field(ge=1, le=10)] = 10
    batch_concurrency: Annotated[int, Field(ge=1, le=10)] = 10
    max_receive_count: Annotated[int, Field(ge=2, le=1000)] = 5
    # Concurrent functions per queue. With 10 jobs each, at most 20 concurrent calls to a
    # provider: Stripe's test mode accepts 25 per second.
    worker_concurrency: Annotated[int, Field(ge=2, le=1000)] = 2
    queue_worker_concurrency: Mapping[str, Annotated[int, Field(ge=2, le=1000)]] = {}
    worker_memory_mb: PositiveInt = 512  # CPU scales with memory, and importing an SDK is CPU-bound
    reconciler_timeout_seconds: PositiveInt = 60  # per function; doubled for a group of jobs

    # A sweep processes a page of jobs in groups, one task per group, several concurrently.
    sweep_interval_minutes: Annotated[int, Field(ge=1, le=10)] = 1
    sweep_page_size: Annotated[int, Field(ge=1, le=1000)] = 1000
    sweep_group_size: Annotated[int, Field(ge=1, le=100)] = 25
    sweep_groups_at_once: Annotated[int, Field(ge=1, le=40)] = 8
    sweep_jobs_at_once: Annotated[int, Field(ge=1, le=30)] = 10  # per group
    # Partitions of each action in the due index, about 500 jobs per second each. Raise it at any
    # time. If it is lowered, due jobs in the higher shards are no longer found.
    due_shards: Annotated[int, Field(ge=DUE_SHARDS, le=1000)] = DUE_SHARDS

    queue_retention_days: Annotated[int, Field(ge=1, le=14)] = 4
    dead_letter_retention_days: Annotated[int, Field(ge=1, le=14)] = 14
    # How long after sending a producer may replay its messages.
    replay_window_days: PositiveInt = 30
    # For ended rows of natural effects; for others, see a contract's `proof_retention`.
    row_retention_days: PositiveInt = 90
    log_retention_days: PositiveInt = 30

    # The tables that the stack creates. With `provisioned`, each table and index gets these
    # units. Throttled jobs are retried, so too few units delay jobs but lose none.
    table_class: Literal["standard", "standard_infrequent_access"] = "standard"
    billing_mode: Literal["on_demand", "provisioned"] = "on_demand"
    read_capacity_units: PositiveInt | None = None
    write_capacity_units: PositiveInt | None = None

    # A CloudWatch dashboard costs $3 a month. Alarms and admin page do not need it.
    dashboard: bool = False

    # Multi-factor authentication for the admin page.
    sign_in_mfa: Literal["optional", "required"] = "optional"

    # Keep the data when the stack or a table is deleted.
    retain_data: bool = False
    # The local engine uses plain HTTP; everywhere else TLS is required.
    tls_only: bool = True

    # Settings of the providers: `stripe_api_base` is the field `api_base` of the plug-in `stripe`.
    provider_settings: Mapping[str, str] = {}
    # The address of the local sandbox, which replaces every provider.
    providers_address: str | None = None

    @model_validator(mode="after")
    def _has_units_if_provisioned(self) -> Self:
        provisioned = self.billing_mode == "provisioned"
        units = (self.read_capacity_units, self.write_capacity_units)
        if any((one is not None) != provisioned for one in units):
            raise ValueError(
                "billing_mode=provisioned needs read_capacity_units and write_capacity_units: "
                "set all three, or none"
            )
        return self

    @property
    def is_local(self) -> bool:
        return self.name == "local"

    def concurrency_for(self, queue: str) -> int:
        return self.queue_worker_concurrency.get(queue, self.worker_concurrency)

    def provider_env_vars(self, providers: Iterable[AnyProvider]) -> dict[str, str]:
        found: dict[str, str] = {}
        for plugin in providers:
            found |= {
                plugin.env_var(field): value
                for field in plugin.settings_type.model_fields
                if field != _RATE and (value := self._provider_setting(plugin, field))
            }
            if plugin.endpoint_env_var and self.providers_address:
                found[plugin.endpoint_env_var] = self.providers_address
        return found

    def provider_outputs(self, providers: Iterable[AnyProvider]) -> dict[str, str]:
        env_vars = self.provider_env_vars(
            plugin for plugin in providers if not plugin.endpoint_env_var or not self.is_local
        )
        return {pascal_case(name.lower()): value for name, value in env_vars.items()}

    def reads_per_second(self, plugin: AnyProvider) -> float | None:
        if given := self.provider_settings.get(f"{plugin.name}_{_RATE}"):
            return float(given)
        if self.name == "dev" and plugin.max_test_reads_per_second:
            return plugin.max_test_reads_per_second
        return plugin.max_reads_per_second

    def settings_of(self, plugin: AnyProvider) -> ProviderSettings:
        return plugin.read_settings(self.provider_env_vars([plugin]))

    def _provider_setting(self, plugin: AnyProvider, field: str) -> str | None:
        if field == "api_base" and self.providers_address:
            return self.providers_address
        return self.provider_settings.get(f"{plugin.name}_{field}")

    @classmethod
    def from_context(
        cls, context: Mapping[str, Any], contracts: Iterable[type[AnyContract]]
    ) -> Self:
        # The CDK's own names contain a colon, slash or @.
        given = {name: context[name] for name in context if not set(name) & set(":/@")}
        name = str(given.pop("stage", "dev"))
        if name not in _DEFAULTS:
            raise StageError(f"unknown stage {name!r}; use one of {', '.join(_DEFAULTS)}")
        required = RequiredResources(tuple(contracts))
        grouped = _group_settings(given, required)
        try:
            stage = cls.model_validate({"name": name, **_DEFAULTS[name], **grouped})
            for plugin in required.providers:
                stage.settings_of(plugin)
            return stage
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors())
            raise StageError(f"invalid settings: {'; '.join(faults)}") from error


_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "dev": {"row_retention_days": 35, "log_retention_days": 14},
    "prod": {"retain_data": True, "log_retention_days": 90, "sign_in_mfa": "required"},
    "local": {
        # Short, so that jobs of a killed worker are looked up after 1 minute instead of 2.
        "worker_timeout_seconds": 60,
        "visibility_timeout_seconds": 360,
        # Each concurrent function is a process, on a machine with few processors.
        "worker_concurrency": 3,
        "sweep_groups_at_once": 2,
        "sweep_page_size": 100,
        "row_retention_days": 35,
        "log_retention_days": 1,
        "tls_only": False,
    },
}


def _group_settings(given: Mapping[str, Any], required: RequiredResources) -> dict[str, Any]:
    """Group settings such as `-c orders_table=shop-orders`, which names an existing table.

    Secrets and queues work the same way.
    """
    provider_settings = [
        f"{plugin.name}_{field}"
        for plugin in required.providers
        for field in plugin.settings_type.model_fields
    ]
    groups = {
        "existing_tables": {f"{name}{_TABLE}": name for name in ("jobs", *required.tables)},
        "existing_secrets": {f"{name}{_SECRET}": name for name in required.secrets},
        "read_only_secrets": {f"{name}{_READ_ONLY_SECRET}": name for name in required.secrets},
        "queue_worker_concurrency": {f"{name}{_CONCURRENCY}": name for name in required.queues},
        "provider_settings": {name: name for name in provider_settings},
    }
    settings = {name: value for name, value in given.items() if name in Stage.model_fields}
    for group, names in groups.items():
        settings[group] = {names[name]: value for name, value in given.items() if name in names}
    spelled_out = {name for names in groups.values() for name in names}
    known = (set(Stage.model_fields) | spelled_out) - {"name", "providers_address", *groups}
    if unknown := sorted(set(given) - known):
        raise StageError(
            f"unknown setting {', '.join(unknown)}; use one of {', '.join(sorted(known))}"
        )
    return settings
