"""The settings of a stage: typed, frozen, and open to `-c name=value` on the command line."""

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

# Parameters of stage `local`: known when the engine runs, not when the stack is synthesized.
ENGINE_ADDRESS: Final = "EngineAddress"
PROVIDERS_ADDRESS: Final = "ProvidersAddress"

# Longer names for what is there already; `<name>` is one that the contracts speak of.
_TABLE: Final = "_table"
_SECRET: Final = "_secret_arn"  # noqa: S105  # the end of a name
_READ_ONLY_SECRET: Final = "_read_only_secret_arn"  # noqa: S105  # as above
_CONCURRENCY: Final = "_worker_concurrency"
_RATE: Final = "reads_per_second"  # shared by functions, so each gets its own value


class StageError(Exception):
    """The context of the CDK does not make a stage."""


class Stage(BaseModel):
    """Everything that may differ between two deployments of the stack."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StageName

    # Who is told; none: alerts go to the topic only.
    alert_email: NonEmptyText | None = None
    # Where the runbook is that alarms point into.
    runbook_url: NonEmptyText = "docs/operations.md"

    # What is there already, by short name; the stack makes the others.
    existing_tables: Mapping[str, NonEmptyText] = {}
    jobs_stream_arn: NonEmptyText | None = None  # with an existing job table only
    existing_secrets: Mapping[str, NonEmptyText] = {}
    # Keys that can only read, for whoever asks what became of a job; without, the worker's.
    read_only_secrets: Mapping[str, NonEmptyText] = {}

    # The worker of a queue: a batch runs in `batch_size / batch_concurrency` rounds.
    worker_timeout_seconds: PositiveInt = 120
    visibility_timeout_seconds: PositiveInt = 720  # six timeouts, as Lambda asks for
    batch_size: Annotated[int, Field(ge=1, le=10)] = 10
    batch_concurrency: Annotated[int, Field(ge=1, le=10)] = 10
    max_receive_count: Annotated[int, Field(ge=2, le=1000)] = 5
    # Functions of one queue at the same time: with ten jobs each, at most 20 calls to a
    # provider at once; Stripe's test mode takes 25 a second.
    worker_concurrency: Annotated[int, Field(ge=2, le=1000)] = 2
    queue_worker_concurrency: Mapping[str, Annotated[int, Field(ge=2, le=1000)]] = {}
    worker_memory_mb: PositiveInt = 512  # CPU comes with memory, and importing an SDK is CPU
    reconciler_timeout_seconds: PositiveInt = 60  # of each of its functions; twice that for a group

    # Sweeps of the reconciler: a page of jobs, in groups, some groups at once, one task each.
    sweep_interval_minutes: Annotated[int, Field(ge=1, le=10)] = 1
    sweep_page_size: Annotated[int, Field(ge=1, le=1000)] = 1000
    sweep_group_size: Annotated[int, Field(ge=1, le=100)] = 25
    sweep_groups_at_once: Annotated[int, Field(ge=1, le=40)] = 8
    sweep_jobs_at_once: Annotated[int, Field(ge=1, le=30)] = 10  # of each group
    # Partitions of each action in the index of due jobs: each takes some 500 jobs a second. It can
    # be raised at any time; lowered, jobs that are due in the higher ones are no longer found.
    due_shards: Annotated[int, Field(ge=DUE_SHARDS, le=1000)] = DUE_SHARDS

    queue_retention_days: Annotated[int, Field(ge=1, le=14)] = 4
    dead_letter_retention_days: Annotated[int, Field(ge=1, le=14)] = 14
    replay_window_days: PositiveInt = (
        30  # a producer may replay its messages this long after sending
    )
    # The ended row of a natural effect; a contract's proof_retention says the same of any other.
    row_retention_days: PositiveInt = 90
    log_retention_days: PositiveInt = 30

    # The tables that the stack makes. With `provisioned`, each table and index has these units
    # per second; throttled jobs are retried, so too few delay jobs and lose none.
    table_class: Literal["standard", "standard_infrequent_access"] = "standard"
    billing_mode: Literal["on_demand", "provisioned"] = "on_demand"
    read_capacity_units: PositiveInt | None = None
    write_capacity_units: PositiveInt | None = None

    # A CloudWatch dashboard costs $3 a month; the alarms and the admin page do without it.
    dashboard: bool = False

    # Whether people who sign in to the support view need a second factor.
    sign_in_mfa: Literal["optional", "required"] = "optional"

    # Whether deleting the stack, or a table, must not delete data.
    retain_data: bool = False
    # The local engine speaks plain HTTP; everything else must speak TLS.
    tls_only: bool = True

    # Settings of the providers: `stripe_api_base` is the field `api_base` of the plug-in `stripe`.
    provider_settings: Mapping[str, str] = {}
    # The sandbox on this machine, in the place of every provider.
    providers_address: str | None = None

    @model_validator(mode="after")
    def _has_units_if_provisioned(self) -> Self:
        provisioned = self.billing_mode == "provisioned"
        units = (self.read_capacity_units, self.write_capacity_units)
        if any((one is not None) != provisioned for one in units):
            raise ValueError(
                "read_capacity_units and write_capacity_units go with billing_mode=provisioned: "
                "set all three, or none of them"
            )
        return self

    @property
    def is_local(self) -> bool:
        """Whether this is the stack on one machine."""
        return self.name == "local"

    def concurrency_for(self, queue: str) -> int:
        """How many functions may work a queue at the same time."""
        return self.queue_worker_concurrency.get(queue, self.worker_concurrency)

    def provider_env_vars(self, providers: Iterable[AnyProvider]) -> dict[str, str]:
        """The settings of these providers as functions read them."""
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
        """The same for the command line, which reads the stack's outputs."""
        env_vars = self.provider_env_vars(
            plugin for plugin in providers if not plugin.endpoint_env_var or not self.is_local
        )
        return {pascal_case(name.lower()): value for name, value in env_vars.items()}

    def reads_per_second(self, plugin: AnyProvider) -> float | None:
        """The reads that all functions together may make of a provider."""
        given = self.provider_settings.get(f"{plugin.name}_{_RATE}")
        if given:
            return float(given)
        if self.name == "dev" and plugin.max_test_reads_per_second:
            return plugin.max_test_reads_per_second
        return plugin.max_reads_per_second

    def settings_of(self, plugin: AnyProvider) -> ProviderSettings:
        """A provider's settings, parsed."""
        return plugin.read_settings(self.provider_env_vars([plugin]))

    def _provider_setting(self, plugin: AnyProvider, field: str) -> str | None:
        if field == "api_base" and self.providers_address:
            return self.providers_address
        return self.provider_settings.get(f"{plugin.name}_{field}")

    @classmethod
    def from_context(
        cls, context: Mapping[str, Any], contracts: Iterable[type[AnyContract]]
    ) -> Self:
        """The stage that the context asks for, `dev` unless it says otherwise."""
        given = {name: value for name, value in context.items() if _is_setting(name)}
        name = str(given.pop("stage", "dev"))
        if name not in _DEFAULTS:
            raise StageError(f"there is no stage {name!r}; there are {', '.join(_DEFAULTS)}")
        required = RequiredResources.from_contracts(contracts)
        grouped = _group_settings(given, required)
        try:
            stage = cls.model_validate({"name": name, **_DEFAULTS[name], **grouped})
            for plugin in required.providers:
                stage.settings_of(plugin)
            return stage
        except ValidationError as error:
            raise StageError(_describe_error(error)) from error


_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "dev": {"row_retention_days": 35, "log_retention_days": 14},
    "prod": {"retain_data": True, "log_retention_days": 90, "sign_in_mfa": "required"},
    "local": {
        # Short, so that what a killed worker held is asked about in a minute, not in two.
        "worker_timeout_seconds": 60,
        "visibility_timeout_seconds": 360,
        # Each of these at once is a process of its own there, on a machine with few processors.
        "worker_concurrency": 3,
        "sweep_groups_at_once": 2,
        "sweep_page_size": 100,
        "row_retention_days": 35,
        "log_retention_days": 1,
        "tls_only": False,
    },
}


def _is_setting(name: str) -> bool:
    """Whether a context value is a setting; the CDK's own names have a colon, a slash or an @."""
    return not any(sign in name for sign in ":/@")


def _group_settings(given: Mapping[str, Any], required: RequiredResources) -> dict[str, Any]:
    """`-c orders_table=shop-orders` names an existing table; secrets and queues likewise."""
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
            f"there is no setting {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
    return settings


def _describe_error(error: ValidationError) -> str:
    faults = (f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors())
    return f"the stage cannot be set up: {'; '.join(faults)}"
