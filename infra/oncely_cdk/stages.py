"""The settings of a stage. Each is a key of the stage's file, such as `stages/prod.toml`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from oncely.contracts.job import AnyJob
from oncely.contracts.settings import pascal_case
from oncely.core.due import DUE_SHARDS
from oncely.operate.second_operator import check_amounts
from oncely.plugins.provider import AnyProvider, ProviderSettings
from oncely_cdk.required_resources import RequiredResources

# A part of stack names, so their rules apply.
StageName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,39}$")]
# What a production stage refuses unless it is accepted by name.
Risk = Literal["no_alert_recipient", "optional_mfa", "plain_http_provider"]
NonEmptyText = Annotated[str, Field(min_length=1)]
# Not an alias: IAM checks the permission on the key itself.
KeyArn = Annotated[str, Field(pattern=r"^arn:[\w-]+:kms:[\w-]+:\d{12}:key/[\w-]+$")]
PositiveInt = Annotated[int, Field(ge=1)]
# Times beyond a century overflow somewhere, and mean "forever".
RetentionDays = Annotated[int, Field(ge=1, le=36_500)]

# As long as SQS keeps a message.
DEAD_LETTER_RETENTION_DAYS: Final = 14
# AWS's recommendation: a batch may be retried and throttled before its messages reappear.
VISIBILITY_FACTOR: Final = 6

# Stack parameters of stage `local`: known when the engine runs, not at synthesis.
ENGINE_ADDRESS: Final = "EngineAddress"
PROVIDERS_ADDRESS: Final = "ProvidersAddress"


class StageError(Exception):
    """The settings do not define a valid stage."""


class StageIdentity(BaseModel):
    """What holds the data of a deployed stage, as its first deployment wrote it to the file.

    With an existing job table, you can write the deployment alone. The rest is added.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    deployment: NonEmptyText  # the one that the job table's identity item must have
    archive_bucket: NonEmptyText | None = None
    # By the stack: `archive_bucket` or `tables.jobs`, for instance.
    created: Annotated[frozenset[str], Field(strict=False)] = frozenset()
    tables: Mapping[str, NonEmptyText] = {}  # by short name


class ExistingKeys(BaseModel):
    """ARNs of the customer-managed KMS keys of existing resources, by short name.

    A resource that is given as a CDK object brings its key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tables: Mapping[str, KeyArn] = {}
    secrets: Mapping[str, KeyArn] = {}
    read_only_secrets: Mapping[str, KeyArn] = {}
    archive_bucket: KeyArn | None = None


def _to_text(value: object) -> object:
    """Allow a number or a boolean for a setting that functions read from their environment."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class OncelySettings(BaseModel):
    """Everything that can differ between two deployments."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: StageName
    # Sets safe defaults and refuses risks (default: true, except for the stages `dev` and `local`).
    production: bool = True

    # Subscribed to the alert topic (default: no subscription).
    alert_email: NonEmptyText | None = None
    # So many alerts of one kind are sent one by one; a sweep sums up more jobs that need review.
    max_alerts_per_hour: PositiveInt = 10
    # The page that alarms link to.
    runbook_url: NonEmptyText = "docs/operations.md"

    # Existing resources, by short name. The stack creates the others.
    existing_tables: Mapping[str, NonEmptyText] = {}
    jobs_stream_arn: NonEmptyText | None = None  # required with an existing job table
    existing_archive_bucket: NonEmptyText | None = None
    existing_secrets: Mapping[str, NonEmptyText] = {}
    existing_keys: ExistingKeys = ExistingKeys()
    # The names that existing tables have for columns of the jobs, where they differ, such as
    # `amount = "total_cents"` under [table_columns.orders].
    table_columns: Mapping[str, Mapping[str, NonEmptyText]] = {}
    # Read-only API keys for the reconciler and the admin page (default: the worker's).
    read_only_secrets: Mapping[str, NonEmptyText] = {}

    # The worker of each queue. The jobs of a batch run at the same time.
    worker_timeout_seconds: PositiveInt = 120
    batch_size: Annotated[int, Field(ge=1, le=10)] = 10
    # Receives before a message is a dead letter. If our side fails, the delays between them grow to
    # 1 hour together. With 50, each is a tenth of the time waited so far: the next receive comes
    # soon after our side recovers.
    max_receive_count: Annotated[int, Field(ge=2, le=1000)] = 50
    # Resubmissions of one business object, such as an order whose card was declined. The first may
    # follow the decline at once. See a contract's `limits_resubmissions`.
    min_resubmission_interval_seconds: Annotated[int, Field(ge=0)] = 60
    max_resubmissions_per_day: PositiveInt = 5
    # Amounts in minor units by currency, such as eur:50000,usd:60000. What an operator causes above
    # one needs a second operator; a currency that is not listed always does (default: never).
    second_operator_above: Annotated[str, AfterValidator(check_amounts)] = ""
    # Concurrent functions per queue. With 10 jobs each, at most 20 concurrent calls to a provider,
    # whose rate the gate limits.
    worker_concurrency: Annotated[int, Field(ge=2, le=1000)] = 2
    queue_worker_concurrency: Mapping[str, Annotated[int, Field(ge=2, le=1000)]] = {}
    worker_memory_mb: PositiveInt = 512  # CPU scales with memory, and importing an SDK is CPU-bound
    reconciler_timeout_seconds: PositiveInt = 60  # per function; doubled for a group of jobs

    # A sweep processes a page of jobs in groups, one function per group, several concurrently.
    sweep_groups_at_once: Annotated[int, Field(ge=1, le=40)] = 8
    # Partitions of each action in the due index, about 500 jobs per second each. Raise it at any
    # time. If it is lowered, due jobs in the higher shards are no longer found.
    due_shards: Annotated[int, Field(ge=DUE_SHARDS, le=1000)] = DUE_SHARDS

    # Less than dead letters, because SQS counts the age of both from the first send.
    queue_retention_days: Annotated[int, Field(ge=1, lt=DEAD_LETTER_RETENTION_DAYS)] = 4
    # How long after sending a producer may replay its messages.
    replay_window_days: PositiveInt = 30
    # For ended rows of natural effects; for others, see a contract's `proof_retention`.
    row_retention_days: PositiveInt = 90
    # For rejected messages in the archive: they can be corrected for as long as a dead letter.
    rejects_retention_days: Annotated[int, Field(ge=DEAD_LETTER_RETENTION_DAYS, le=36_500)] = 90
    # By table, for those whose schema has a default, such as `import_events`.
    table_retention_days: Mapping[str, RetentionDays] = {}
    log_retention_days: PositiveInt = 30
    # Of the admin page's functions, whose logs hold the access log.
    access_log_retention_days: PositiveInt = 365

    # The tables that the stack creates. With units, each table and index has provisioned capacity.
    # Throttled jobs are retried, so too few units delay jobs but lose none.
    table_class: Literal["standard", "standard_infrequent_access"] = "standard"
    read_capacity_units: PositiveInt | None = None
    write_capacity_units: PositiveInt | None = None

    # A CloudWatch dashboard costs $3 a month. Alarms and admin page do not need it.
    dashboard: bool = False

    # Compare payments with the jobs every day from 03:00 UTC on, and alert if they differ. The
    # default is true in production.
    daily_payment_audit: bool = False

    # Names of risks that a production stage otherwise refuses.
    accepted_risks: Annotated[frozenset[Risk], Field(strict=False)] = frozenset()

    # Settings of the providers: `acme_api_base` is the field `api_base` of the plug-in `acme`.
    provider_settings: Mapping[str, Annotated[str, BeforeValidator(_to_text)]] = {}

    # Settings that the jobs declare (`settings` of their resources), by field.
    job_settings: Mapping[str, Annotated[str, BeforeValidator(_to_text)]] = {}

    # Job types that may be removed. Their jobs that are still open then need review.
    retired_job_types: Annotated[frozenset[str], Field(strict=False)] = frozenset()

    # Written by the first deployment. Later ones must keep it.
    identity: StageIdentity | None = None

    # The address of the local sandbox, which replaces every provider.
    providers_address: str | None = None
    # The file that these settings come from, for errors.
    file: Path | None = None

    @model_validator(mode="before")
    @classmethod
    def _add_defaults_of_stage(cls, given: dict[str, Any]) -> dict[str, Any]:
        name = given.get("name")
        if name == "local":
            return {"production": False, **_LOCAL, **given}
        production = given.get("production", name != "dev")
        return {**(_PRODUCTION if production else _DEVELOPMENT), **given, "production": production}

    @model_validator(mode="after")
    def _has_both_units_or_none(self) -> Self:
        if (self.read_capacity_units is None) != (self.write_capacity_units is None):
            raise ValueError(
                "provisioned capacity needs read_capacity_units and write_capacity_units: "
                "set both, or none"
            )
        return self

    @property
    def retain_data(self) -> bool:
        """Whether the data stays when the stack or a table is deleted."""
        return self.production

    @property
    def requires_mfa(self) -> bool:
        """Whether the admin page requires multi-factor authentication."""
        return self.production and "optional_mfa" not in self.accepted_risks

    @property
    def tls_only(self) -> bool:
        """Whether queues, topics and buckets refuse plain HTTP, which the local engine uses."""
        return not self.is_local

    @property
    def visibility_timeout_seconds(self) -> int:
        """How long a message stays hidden while a function may run with it."""
        # The consumers of dead letters and rejects have the reconciler's timeout.
        longest = max(self.worker_timeout_seconds, self.reconciler_timeout_seconds)
        return VISIBILITY_FACTOR * longest

    @property
    def is_local(self) -> bool:
        return self.name == "local"

    def concurrency_for(self, queue: str) -> int:
        return self.queue_worker_concurrency.get(queue, self.worker_concurrency)

    def retention_days_of(self, required: RequiredResources) -> dict[str, int]:
        return {**required.default_retention_days, **self.table_retention_days}

    def provider_env_vars(self, providers: Iterable[AnyProvider]) -> dict[str, str]:
        found: dict[str, str] = {}
        for plugin in providers:
            found |= {
                plugin.env_var(field): value
                for field in plugin.settings_type.model_fields
                if (value := self._provider_setting(plugin, field))
            }
            if plugin.endpoint_env_var and self.providers_address:
                found[plugin.endpoint_env_var] = self.providers_address
        return found

    def provider_outputs(self, providers: Iterable[AnyProvider]) -> dict[str, str]:
        env_vars = self.provider_env_vars(
            plugin for plugin in providers if not plugin.endpoint_env_var or not self.is_local
        )
        return {pascal_case(name.lower()): value for name, value in env_vars.items()}

    def required_resources(self, contracts: Iterable[type[AnyJob]]) -> RequiredResources:
        """What these contracts require in this stage: nothing of a provider without settings."""
        every = RequiredResources(tuple(contracts))
        unused = (p for p in every.providers if not p.is_configured(self.settings_of(p)))
        return RequiredResources(every.contracts, frozenset(one.name for one in unused))

    def webhook_providers(self, required: RequiredResources) -> tuple[AnyProvider, ...]:
        """The providers whose events arrive at an HTTPS endpoint."""
        return tuple(p for p in required.providers if p.webhook_rules(self.settings_of(p)))

    def event_providers(self, required: RequiredResources) -> tuple[AnyProvider, ...]:
        """The providers whose events are on."""
        return tuple(p for p in required.providers if p.all_event_rules(self.settings_of(p)))

    def settings_of(self, plugin: AnyProvider) -> ProviderSettings:
        try:
            return plugin.read_settings(self.provider_env_vars([plugin]))
        except ValidationError as error:
            name = f"provider_settings.{plugin.name}"
            faults = (f"{name}_{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors())
            raise self.error("; ".join(faults)) from error

    def _provider_setting(self, plugin: AnyProvider, field: str) -> str | None:
        if field == "api_base" and self.providers_address:
            return f"{self.providers_address}{plugin.local_path}"
        return self.provider_settings.get(f"{plugin.name}_{field}")

    def error(self, sentence: str) -> StageError:
        """Return an error that names the file of these settings."""
        return StageError(sentence if self.file is None else f"{self.file}: {sentence}")


_DEVELOPMENT: Final[Mapping[str, Any]] = {"row_retention_days": 35, "log_retention_days": 14}
_PRODUCTION: Final[Mapping[str, Any]] = {
    "log_retention_days": 90,
    "daily_payment_audit": True,
}
_LOCAL: Final[Mapping[str, Any]] = {
    # Short, so that jobs of a killed worker are looked up after 1 minute instead of 2.
    "worker_timeout_seconds": 60,
    # Each concurrent function is a process, on a machine with few processors.
    "worker_concurrency": 3,
    "sweep_groups_at_once": 2,
    "row_retention_days": 35,
    "log_retention_days": 1,
    "access_log_retention_days": 1,
}
