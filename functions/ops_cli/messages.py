"""Messages as people write them: JSON, lines of JSON, or `payment.charge order_id=18452`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncely.contract import AnyContract, Message
from oncely.domain.errors import BadInputError
from oncely.registry import Registry
from ops_cli.exits import CommandError, Exit


@dataclass(frozen=True)
class Written:
    """A message, and where it was written."""

    body: Mapping[str, object]
    place: str


@dataclass(frozen=True)
class Fault:
    """A message that cannot be sent, and why."""

    place: str
    why: str


def of_arguments(words: Sequence[str], registry: Registry) -> list[str]:
    """JSON texts as they are, or one message from a job type and its fields."""
    if words[0].lstrip().startswith("{"):
        return list(words)
    contract = registry.contract(words[0])
    return [json.dumps(_message(contract, words[1:]))]


def checked(bodies: Iterable[tuple[str, str]], registry: Registry) -> Iterator[Written | Fault]:
    """Each message read as a queue's worker would read it."""
    for place, body in bodies:
        try:
            contract, message = registry.parse(body)
            contract.key(message)
        except BadInputError as error:
            yield Fault(place, str(error))
        else:
            yield Written(_said(message), place)


def _said(message: Message) -> Mapping[str, object]:
    return message.as_json()


def _message(contract: type[AnyContract], fields: Sequence[str]) -> dict[str, object]:
    schema: dict[str, Any] = contract.message.model_json_schema()
    known: dict[str, dict[str, Any]] = schema["properties"]
    message: dict[str, object] = {
        "job": contract.job_type,
        "v": known["v"].get("const", 1),
    }
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals:
            raise CommandError(
                f"{field!r} is no field of a message: write name=value, such as order_id=18452.",
                Exit.USAGE,
            )
        message[name] = _typed(value, known.get(name, {}))
    return message


def _typed(value: str, field: Mapping[str, Any]) -> object:
    """The value as its contract wants it: an order id stays text, an amount is a number."""
    kinds = {one.get("type") for one in (field, *field.get("anyOf", ()))}
    if "string" in kinds or not kinds - {None, "null"}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value  # its contract says what is wrong with it
