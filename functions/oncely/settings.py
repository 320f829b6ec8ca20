"""The environment of a function as a frozen model; read once, by the entry point."""

from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from oncely.domain.errors import NotConfiguredError
from oncely.registry import Registry

Text = Annotated[str, Field(min_length=1)]


def table_variable(table: str) -> str:
    """The variable that names a business table: `orders` is in ORDERS_TABLE."""
    return f"{table.upper()}_TABLE"


def secret_variable(secret: str) -> str:
    """The variable that names a secret, by name or ARN: `stripe` is in STRIPE_SECRET."""
    return f"{secret.upper()}_SECRET"


def queue_variable(queue: str) -> str:
    """The variable that gives a queue's address: `mail` is in MAIL_QUEUE_URL."""
    return f"{queue.upper()}_QUEUE_URL"


_VARIABLES: Final[Mapping[str, str]] = {
    "queue": "QUEUE_NAME",
    "queue_url": "QUEUE_URL",
    "rejects_queue_url": "REJECTS_QUEUE_URL",
    "alert_topic_arn": "ALERT_TOPIC_ARN",
    "jobs_table": "JOBS_TABLE",
    "side_by_side": "SIDE_BY_SIDE",
    "max_receives": "MAX_RECEIVES",
    "stripe_api_base": "STRIPE_API_BASE",
}


class WorkerSettings(BaseModel):
    """What the worker of one queue needs to know."""

    model_config = ConfigDict(frozen=True)

    queue: Text  # the short name, such as `payments`: it selects the contracts
    queue_url: Text
    rejects_queue_url: Text
    alert_topic_arn: Text
    jobs_table: Text
    queues: Mapping[str, Text]  # those that its contracts send to
    tables: Mapping[str, Text]
    secrets: Mapping[str, Text]
    # Ten messages in two rounds; each job waits for its provider most of the time.
    side_by_side: Annotated[int, Field(ge=1, le=10)] = 5
    max_receives: Annotated[int, Field(ge=2)] = 5
    stripe_api_base: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str], registry: Registry) -> Self:
        """Read the variables that this queue's contracts need, or say which one is missing."""
        found = {name: environ[of] for name, of in _VARIABLES.items() if environ.get(of)}
        contracts = tuple(registry.of_queue(found.get("queue", "")))
        queues = {name for contract in contracts for name in contract.needs.sends_to}
        tables = {name for contract in contracts for name in contract.needs.tables}
        secrets = {name for contract in contracts for name in contract.needs.secrets}
        try:
            return cls.model_validate(
                {
                    **found,
                    "queues": {name: environ.get(queue_variable(name), "") for name in queues},
                    "tables": {name: environ.get(table_variable(name), "") for name in tables},
                    "secrets": {name: environ.get(secret_variable(name), "") for name in secrets},
                }
            )
        except ValidationError as error:
            raise NotConfiguredError(_sentence(error)) from error


def _sentence(error: ValidationError) -> str:
    faults = "; ".join(f"{_variable(fault['loc'])}: {fault['msg']}" for fault in error.errors())
    return f"the function's environment is incomplete, deploy the stack again: {faults}"


def _variable(place: tuple[int | str, ...]) -> str:
    match place:
        case ("queues", str(name)):
            return queue_variable(name)
        case ("tables", str(name)):
            return table_variable(name)
        case ("secrets", str(name)):
            return secret_variable(name)
        case (str(name), *_):
            return _VARIABLES.get(name, name)
        case _:
            return "environment"
