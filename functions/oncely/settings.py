"""The settings of a function or command, read from its environment once."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from oncely.contract import AnyContract
from oncely.domain.due import DUE_SHARDS
from oncely.domain.errors import NotConfiguredError
from oncely.provider import AnyProvider, ProviderSettings


def pascal_case(name: str) -> str:
    """Convert a short name to the spelling of the stack's outputs: `ImportEvents`."""
    return "".join(part.title() for part in name.split("_"))


def table_env_var(table: str) -> str:
    """Return the variable that names a business table: ORDERS_TABLE for `orders`."""
    return f"{table.upper()}_TABLE"


def secret_env_var(secret: str) -> str:
    """Return the variable with a secret's name or ARN: ACME_SECRET for `acme`."""
    return f"{secret.upper()}_SECRET"


def queue_env_var(queue: str) -> str:
    """Return the variable with a queue's URL: MAIL_QUEUE_URL for `mail`."""
    return f"{queue.upper()}_QUEUE_URL"


_ENV_VARS: Final = {"queues": queue_env_var, "secrets": secret_env_var, "tables": table_env_var}


class Settings(BaseModel):
    """All settings. Each field is read from the environment variable of its name in capitals.

    A function's environment has only what it uses; `require` reports what is missing.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    stack_name: str = ""  # names the stack in the commands that alerts suggest
    jobs_table: str | None = None
    due_shards: Annotated[int, Field(ge=DUE_SHARDS)] = DUE_SHARDS
    archive_bucket: str | None = None
    alert_topic_arn: str | None = None
    event_bus_name: str | None = None
    reconciler_arn: str | None = None
    rejects_queue_url: str | None = None
    retention_days: Annotated[int, Field(ge=1)] | None = None  # for rows of natural effects

    # The worker of one queue: its short name selects the contracts. A whole batch runs at once:
    # a job mostly waits for its provider, and Lambda bills the wait once per batch.
    queue_name: str | None = None
    queue_url: str | None = None
    batch_concurrency: Annotated[int, Field(ge=1, le=10)] = 10
    max_receive_count: Annotated[int, Field(ge=2)] = 5

    sweep_page_size: Annotated[int, Field(ge=1)] = 1000
    sweep_group_size: Annotated[int, Field(ge=1)] = 25
    sweep_jobs_at_once: Annotated[int, Field(ge=1)] = 10

    sign_in_url: str | None = None
    sign_in_client_id: str | None = None

    # By short name; only those that are set.
    queues: Mapping[str, str] = {}
    tables: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    providers: Mapping[str, ProviderSettings] = {}

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str], contracts: Iterable[type[AnyContract]] = ()
    ) -> Self:
        values: dict[str, Any] = {
            name: environ[name.upper()]
            for name in cls.model_fields
            if name not in _ENV_VARS and environ.get(name.upper())
        }
        resources = [contract_type.resources for contract_type in contracts]
        names = {
            "queues": {name for one in resources for name in (one.queue, *one.sends_to)},
            "tables": {name for one in resources for name in one.table_names},
            "secrets": {name for one in resources for name in one.secret_names},
        }
        for field, variable in _ENV_VARS.items():
            values[field] = {
                name: environ[variable(name)]
                for name in sorted(names[field])
                if environ.get(variable(name))
            }
        plugins = {plugin.name: plugin for one in resources for plugin in one.providers}
        env_var: Callable[[tuple[int | str, ...]], str] = _env_var
        try:
            values["providers"] = {}
            for name, plugin in sorted(plugins.items()):
                env_var = _env_var_of(plugin)
                values["providers"][name] = plugin.read_settings(environ)
            env_var = _env_var
            return cls.model_validate(values)
        except ValidationError as error:
            faults = (f"{env_var(one['loc'])}: {one['msg']}" for one in error.errors())
            raise NotConfiguredError(_incomplete("; ".join(faults))) from error

    def require(self, *fields: str) -> None:
        if missing := [tuple(field.split(".")) for field in fields if not self._has(field)]:
            faults = "; ".join(f"{_env_var(one)}: missing" for one in missing)
            raise NotConfiguredError(_incomplete(faults))

    def _has(self, field: str) -> bool:
        group, _, name = field.partition(".")
        value = getattr(self, group)
        return bool(value.get(name) if name else value)


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
