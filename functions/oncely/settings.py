"""The environment of a function as a frozen model, one for each kind; read by the entry point."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from oncely.contract import AnyContract
from oncely.domain.due import DUE_SHARDS
from oncely.domain.errors import NotConfiguredError

RequiredStr = Annotated[str, Field(min_length=1)]
NameMap = Mapping[str, RequiredStr]
DueShards = Annotated[int, Field(ge=DUE_SHARDS)]
PositiveRate = Annotated[float, Field(gt=0)]


def pascal_case(name: str) -> str:
    """The short name as the stack's outputs spell it: `import_events` is ImportEvents."""
    return "".join(part.title() for part in name.split("_"))


def table_env_var(table: str) -> str:
    """The variable that names a business table: `orders` is in ORDERS_TABLE."""
    return f"{table.upper()}_TABLE"


def secret_env_var(secret: str) -> str:
    """The variable that names a secret, by name or ARN: `stripe` is in STRIPE_SECRET."""
    return f"{secret.upper()}_SECRET"


def queue_env_var(queue: str) -> str:
    """The variable that gives a queue's address: `mail` is in MAIL_QUEUE_URL."""
    return f"{queue.upper()}_QUEUE_URL"


_ENV_VAR_OF: Final = {
    "queues": queue_env_var,
    "secrets": secret_env_var,
    "tables": table_env_var,
}


class Settings(BaseModel):
    """What every function's settings share: a field is the variable of its name in capitals."""

    # Built when first used: a function reads one kind of these.
    model_config = ConfigDict(frozen=True, defer_build=True)

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str], contracts: Iterable[type[AnyContract]] = ()
    ) -> Self:
        """Read what this kind and these contracts need, or say which variable is missing."""
        found: dict[str, Any] = {
            name: environ[name.upper()]
            for name in cls.model_fields
            if environ.get(name.upper()) and name not in _ENV_VAR_OF
        }
        for field, names in cls.required_resources(tuple(contracts)).items():
            variable = _ENV_VAR_OF[field]
            found[field] = {name: environ.get(variable(name), "") for name in sorted(names)}
        try:
            return cls.model_validate(found)
        except ValidationError as error:
            raise NotConfiguredError(_describe_errors(error)) from error

    @classmethod
    def required_resources(cls, contracts: tuple[type[AnyContract], ...]) -> Mapping[str, set[str]]:
        """The queues, tables and secrets that these contracts need from this kind."""
        del contracts
        return {}


class DependencySettings(Settings):
    """What contracts are built from."""

    jobs_table: RequiredStr
    due_shards: DueShards = DUE_SHARDS
    queues: NameMap = {}
    tables: NameMap = {}
    secrets: NameMap = {}
    stripe_api_base: str | None = None
    hubspot_api_base: str | None = None
    hubspot_properties: str = ""  # names of contact properties to read, with commas
    hubspot_id_property: RequiredStr = "oncely_id"  # the unique property that carries our id
    sender_address: str | None = None  # none: no mail is sent
    # What this function may ask of each provider; none: as fast as it answers.
    stripe_reads_per_second: PositiveRate | None = None
    hubspot_reads_per_second: PositiveRate | None = None


class WorkerSettings(DependencySettings):
    """The worker of one queue."""

    queue_name: RequiredStr  # the short name, such as `payments`: it selects the contracts
    queue_url: RequiredStr
    rejects_queue_url: RequiredStr
    alert_topic_arn: RequiredStr
    stack_name: str = ""
    retention_days: Annotated[int, Field(ge=1)]  # of the row of a natural effect that has ended
    # A whole batch at once: each job waits for its provider most of the time, and waiting is paid
    # for by the batch.
    batch_concurrency: Annotated[int, Field(ge=1, le=10)] = 10
    max_receive_count: Annotated[int, Field(ge=2)] = 5

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str], contracts: Iterable[type[AnyContract]] = ()
    ) -> Self:
        """Only the contracts of its own queue count."""
        queue = environ.get("QUEUE_NAME")
        return super().from_env(environ, [one for one in contracts if one.resources.queue == queue])

    @classmethod
    def required_resources(cls, contracts: tuple[type[AnyContract], ...]) -> Mapping[str, set[str]]:
        """What the contracts of its queue name."""
        return {
            "queues": {name for kind in contracts for name in kind.resources.sends_to},
            "tables": {name for kind in contracts for name in kind.resources.tables},
            "secrets": {name for kind in contracts for name in kind.resources.secrets},
        }


class FinishSweepSettings(Settings):
    """Ends a sweep, and starts the next."""

    jobs_table: RequiredStr
    reconciler_arn: RequiredStr


class FindDueSettings(DependencySettings):
    """Finds what is due, and starts a sweep."""

    reconciler_arn: RequiredStr
    sweep_page_size: Annotated[int, Field(ge=1)] = 1000
    sweep_group_size: Annotated[int, Field(ge=1)] = 25

    @classmethod
    def required_resources(cls, contracts: tuple[type[AnyContract], ...]) -> Mapping[str, set[str]]:
        """The tables of those contracts that look for work that was never sent."""
        detecting = [kind for kind in contracts if kind.detects_missing_jobs()]
        return {"tables": {name for kind in detecting for name in kind.resources.tables}}


class PublisherSettings(DependencySettings):
    """Sends what an ended job owes."""

    event_bus_name: RequiredStr
    retention_days: Annotated[int, Field(ge=1)]

    @classmethod
    def required_resources(cls, contracts: tuple[type[AnyContract], ...]) -> Mapping[str, set[str]]:
        """Every queue: a follow-up may go to any."""
        return {"queues": {kind.resources.queue for kind in contracts}}


class ReconcilerSettings(PublisherSettings):
    """Resolves what is due."""

    archive_bucket: str = ""  # for whoever lists done jobs as well

    @classmethod
    def required_resources(cls, contracts: tuple[type[AnyContract], ...]) -> Mapping[str, set[str]]:
        """Everything: it asks for any contract."""
        return {
            "queues": {kind.resources.queue for kind in contracts},
            "tables": {name for kind in contracts for name in kind.resources.tables},
            "secrets": {name for kind in contracts for name in kind.resources.secrets},
        }


class FirstSetupSettings(Settings):
    """Gives a new job table its identity."""

    jobs_table: RequiredStr


class ResolveGroupSettings(ReconcilerSettings):
    """Resolves a group of what is due, and alerts operators."""

    alert_topic_arn: RequiredStr
    stack_name: str = ""
    sweep_jobs_at_once: Annotated[int, Field(ge=1)] = 10


class DeadLetterSettings(Settings):
    """Receives dead letters."""

    jobs_table: RequiredStr
    due_shards: DueShards = DUE_SHARDS
    alert_topic_arn: RequiredStr
    stack_name: str = ""  # names the deployment in the commands that people are given
    rejects_queue_url: RequiredStr


class AdminPageSettings(Settings):
    """Reads jobs for people, and serves the page."""

    jobs_table: RequiredStr
    archive_bucket: RequiredStr
    due_shards: DueShards = DUE_SHARDS
    sign_in_url: RequiredStr
    sign_in_client_id: RequiredStr
    stack_name: RequiredStr


class HistorySettings(Settings):
    """Archives what the stream shows."""

    jobs_table: RequiredStr
    archive_bucket: RequiredStr


class RejectArchiveSettings(Settings):
    """Archives rejected messages."""

    archive_bucket: RequiredStr


def _describe_errors(error: ValidationError) -> str:
    faults = "; ".join(f"{_env_var_at(fault['loc'])}: {fault['msg']}" for fault in error.errors())
    return f"the function's environment is incomplete, deploy the stack again: {faults}"


def _env_var_at(location: tuple[int | str, ...]) -> str:
    match location:
        case (str(field), str(name)) if field in _ENV_VAR_OF:
            return _ENV_VAR_OF[field](name)
        case (str(name), *_):
            return name.upper()
        case _:
            return "environment"
