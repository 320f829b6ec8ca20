"""Messages as people write them: JSON, lines of JSON, or `payment.charge order_id=18452`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncely.cli.exits import CommandError, ExitCode
from oncely.contract import AnyContract, Message
from oncely.domain.errors import InvalidInputError
from oncely.registry import ContractRegistry


@dataclass(frozen=True)
class InputMessage:
    """A message, and where it was written."""

    body: Mapping[str, object]
    source: str


@dataclass(frozen=True)
class MessageError:
    """A message that cannot be sent, and why."""

    source: str
    reason: str


def parse_arguments(words: Sequence[str], registry: ContractRegistry) -> list[str]:
    """JSON texts as they are, or one message from a job type and its fields."""
    if words[0].lstrip().startswith("{"):
        return list(words)
    contract = registry.contract(words[0])
    return [json.dumps(_message(contract, words[1:]))]


def validate_messages(
    bodies: Iterable[tuple[str, str]], registry: ContractRegistry
) -> Iterator[InputMessage | MessageError]:
    """Each message read as a queue's worker would read it."""
    for source, body in bodies:
        try:
            contract, message = registry.parse_body(body)
            contract.key(message)
        except InvalidInputError as error:
            yield MessageError(source, str(error))
        else:
            yield InputMessage(_message_json(message), source)


def _message_json(message: Message) -> Mapping[str, object]:
    return message.to_dict()


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
                ExitCode.USAGE,
            )
        message[name] = _parse_value(value, known.get(name, {}))
    return message


def _parse_value(value: str, field: Mapping[str, Any]) -> object:
    """The value as its contract wants it: an order id stays text, an amount is a number."""
    json_types = {one.get("type") for one in (field, *field.get("anyOf", ()))}
    if "string" in json_types or not json_types - {None, "null"}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value  # its contract says what is wrong with it
