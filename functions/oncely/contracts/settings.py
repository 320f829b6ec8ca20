"""The settings of a function or command, read from its environment once."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Json, ValidationError

from oncely.contracts.job import AnyJob, JobSettings
from oncely.core.claims import ResubmissionLimit
from oncely.core.due import DUE_SHARDS
from oncely.core.errors import NotConfiguredError
from oncely.plugins.provider import AnyProvider, ProviderSettings

J = TypeVar("J", bound=JobSettings)


def pascal_case(name: str) -> str:
    """Convert a short name to the spelling of the stack's outputs: `ImportEvents`."""
    return "".join(part.title() for part in name.split("_"))


def table_env_var(table: str) -> str:
    """Return the variable with the name of a business table: ORDERS_TABLE for `orders`."""
    return f"{table.upper()}_TABLE"


def retention_env_var(table: str) -> str:
    """Return the variable with a table's retention: IMPORT_EVENTS_RETENTION_DAYS."""
    return f"{table.upper()}_RETENTION_DAYS"


def columns_env_var(table: str) -> str:
    """Return the variable with the mapped columns of a table: ORDERS_COLUMNS for `orders`."""
    return f"{table.upper()}_COLUMNS"


def secret_env_var(secret: str) -> str:
    """Return the variable with a secret's name or ARN: ACME_SECRET for `acme`."""
    return f"{secret.upper()}_SECRET"


def job_setting_output(field: str) -> str:
    """Return the output with a setting of a job: VoucherTemplateSetting."""
    return f"{pascal_case(field)}Setting"


def queue_env_var(queue: str) -> str:
    """Return the variable with a queue's URL: MAIL_QUEUE_URL for `mail`."""
    return f"{queue.upper()}_QUEUE_URL"


def configured_providers_of(contracts: Iterable[type[AnyJob]]) -> tuple[AnyProvider, ...]:
    """Return the plug-ins whose settings contracts read: those they call, and `settings_of`."""
    plugins = {
        one.name: one for job in contracts for one in (*job.all_providers(), *job.settings_of)
    }
    return tuple(plugins[name] for name in sorted(plugins))


EXISTING_TABLES_ENV_VAR: Final = "EXISTING_TABLES"
EXISTING_TABLES_OUTPUT: Final = "ExistingTables"
# Of a stage, for its workers and for repairs.
RESUBMISSION_SETTINGS: Final = ("min_resubmission_interval_seconds", "max_resubmissions_per_day")
_ENV_VARS: Final = {
    "queues": queue_env_var,
    "secrets": secret_env_var,
    "table_columns": columns_env_var,
    "table_retention_days": retention_env_var,
    "tables": table_env_var,
}


def _split(names: object) -> object:
    return frozenset(names.split(",")) if isinstance(names, str) else names


class Settings(BaseModel):
    """All settings. Each field is read from the environment variable of its name in capitals.

    A function's environment has only what it uses; `require` reports what is missing.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    # The digests of the code that was deployed with these settings.
    engine_stamp: str | None = None
    job_stamp: str | None = None
    stack_name: str = ""  # the stack in the commands of alerts
    aws_region: str | None = None  # set by AWS, for links to its console
    aws_endpoint_url: str | None = None  # set for a local stack, which has no console
    jobs_table: str | None = None
    gates_table: str | None = None
    due_shards: Annotated[int, Field(ge=DUE_SHARDS)] = DUE_SHARDS
    archive_bucket: str | None = None
    alert_topic_arn: str | None = None
    event_bus_name: str | None = None
    reconciler_arn: str | None = None
    event_account: str | None = None  # of AWS, in which events of providers arrive
    rejects_queue_url: str | None = None
    dead_letter_queue_url: str | None = None
    retention_days: Annotated[int, Field(ge=1)] | None = None  # for rows of natural effects

    # So many alerts of one kind are sent one by one; a sweep sums up more jobs that need review.
    max_alerts_per_hour: Annotated[int, Field(ge=1)] = 10

    # The worker of one queue: its short name selects the contracts. A whole batch runs at once:
    # a job mostly waits for its provider, and Lambda bills the wait once per batch.
    queue_name: str | None = None
    queue_url: str | None = None
    batch_concurrency: Annotated[int, Field(ge=1, le=10)] = 10
    # See `max_receive_count` of the stage.
    max_receive_count: Annotated[int, Field(ge=2)] = 50

    # Of one business object, such as an order; see a contract's `limits_resubmissions`.
    min_resubmission_interval_seconds: Annotated[int, Field(ge=0)] = 60
    max_resubmissions_per_day: Annotated[int, Field(ge=1)] = 5

    # Amounts above which an operator needs a second one, as the stage checked them.
    second_operator_above: str = ""

    sweep_page_size: Annotated[int, Field(ge=1)] = 1000
    sweep_group_size: Annotated[int, Field(ge=1)] = 25
    sweep_jobs_at_once: Annotated[int, Field(ge=1)] = 10

    sign_in_url: str | None = None
    sign_in_client_id: str | None = None
    user_pool_id: str | None = None
    access_log_secret: str | None = None  # the key of the digests in the access log

    # Business tables that the stack did not create, separated by commas: indexes may be missing.
    existing_tables: Annotated[frozenset[str], BeforeValidator(_split)] = frozenset()

    # By short name; only those that are set.
    queues: Mapping[str, str] = {}
    tables: Mapping[str, str] = {}
    # Of an existing table, as JSON: the names that it has for our columns, where they differ.
    table_columns: Mapping[str, Json[dict[str, str]]] = {}
    table_retention_days: Mapping[str, Annotated[int, Field(ge=1)]] = {}
    secrets: Mapping[str, str] = {}
    providers: Mapping[str, ProviderSettings] = {}
    job_settings: Mapping[str, str] = {}  # by variable; each job parses its own

    @property
    def row_retention(self) -> timedelta:
        self.require("retention_days")
        return timedelta(days=self.retention_days or 0)

    @property
    def resubmission_limit(self) -> ResubmissionLimit:
        return ResubmissionLimit(
            min_interval=timedelta(seconds=self.min_resubmission_interval_seconds),
            max_per_day=self.max_resubmissions_per_day,
        )

    @classmethod
    def from_env(cls, environ: Mapping[str, str], contracts: Iterable[type[AnyJob]] = ()) -> Self:
        values: dict[str, Any] = {
            name: environ[name.upper()]
            for name in cls.model_fields
            if name not in _ENV_VARS and environ.get(name.upper())
        }
        resources = list(contracts)
        default_days = {
            table.name: table.retention_days
            for one in resources
            for table in one.all_tables()
            if not isinstance(table, str) and table.retention_days
        }
        tables = {name for one in resources for name in one.table_names()}
        names = {
            "queues": {name for one in resources for name in (one.queue, *one.sends_to)},
            "tables": tables,
            "table_columns": tables,
            "table_retention_days": set(default_days),
            "secrets": {
                *(name for one in resources for name in one.secret_names()),
                *(
                    plugin.webhook_secret_name
                    for one in resources
                    for plugin in one.all_providers()
                ),
            },
        }
        for field, variable in _ENV_VARS.items():
            values[field] = {
                name: environ[variable(name)]
                for name in sorted(names[field])
                if environ.get(variable(name))
            }
        values["table_retention_days"] = default_days | values["table_retention_days"]
        own = {
            name for one in resources if one.settings for name in one.settings.env_vars().values()
        }
        values["job_settings"] = {name: environ[name] for name in sorted(own) if environ.get(name)}
        env_var: Callable[[tuple[int | str, ...]], str] = _env_var
        try:
            values["providers"] = {}
            for plugin in configured_providers_of(contracts):
                env_var = _env_var_of(plugin)
                values["providers"][plugin.name] = plugin.read_settings(environ)
            env_var = _env_var
            return cls.model_validate(values)
        except ValidationError as error:
            faults = (f"{env_var(one['loc'])}: {one['msg']}" for one in error.errors())
            raise NotConfiguredError(_incomplete("; ".join(faults))) from error

    def parse_job_settings(self, settings_type: type[J]) -> J:
        """Parse the settings that a contract declares, or raise NotConfiguredError."""
        try:
            return settings_type.read(self.job_settings)
        except ValidationError as error:
            raise NotConfiguredError(_incomplete(describe_job_settings(error))) from error

    def require(self, *fields: str) -> None:
        if missing := [tuple(field.split(".")) for field in fields if not self._has(field)]:
            faults = "; ".join(f"{_env_var(one)}: missing" for one in missing)
            raise NotConfiguredError(_incomplete(faults))

    def require_for_worker(
        self, contracts: Iterable[type[AnyJob]], providers: Collection[AnyProvider]
    ) -> None:
        """Require what a worker needs for its jobs."""
        used = tuple(contracts)
        self.require(
            *("jobs_table", "gates_table", "alert_topic_arn", "rejects_queue_url"),
            "retention_days",
            *sorted({f"tables.{name}" for one in used for name in one.table_names()}),
            *sorted({f"secrets.{name}" for one in used for name in one.secret_names(providers)}),
            *sorted({f"queues.{name}" for one in used for name in one.sends_to}),
        )

    def _has(self, field: str) -> bool:
        group, _, name = field.partition(".")
        value = getattr(self, group)
        return bool(value.get(name) if name else value)


def describe_job_settings(error: ValidationError) -> str:
    """Describe what is wrong with the settings of a job, by variable."""
    return "; ".join(f"{str(one['loc'][0]).upper()}: {one['msg']}" for one in error.errors())


def _env_var_of(plugin: AnyProvider) -> Callable[[tuple[int | str, ...]], str]:
    return lambda location: plugin.env_var(str(location[0])) if location else plugin.name


def _incomplete(faults: str) -> str:
    return f"the environment is incomplete ({faults}): deploy the stack again"


def _env_var(location: tuple[int | str, ...]) -> str:
    match location:
        case (str(field), str(name), *_) if field in _ENV_VARS:
            return _ENV_VARS[field](name)
        case (str(name), *_):
            return name.upper()
        case _:
            return "environment"
