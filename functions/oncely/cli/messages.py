"""Messages as a producer writes them: JSON, JSON lines, or `payment.charge order_id=18452`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncely.cli.errors import usage_error
from oncely.contracts.contract import AnyContract
from oncely.contracts.registry import ContractRegistry
from oncely.core.errors import InvalidInputError


@dataclass(frozen=True)
class InputMessage:
    """A valid message and where it was read."""

    body: Mapping[str, object]
    source: str


@dataclass(frozen=True)
class MessageError:
    """A message that cannot be sent, and why."""

    source: str
    reason: str


def parse_arguments(words: Sequence[str], registry: ContractRegistry) -> list[str]:
    """Return JSON arguments unchanged, or build one message from a job type and its fields."""
    if words[0].lstrip().startswith("{"):
        return list(words)
    return [json.dumps(_message(registry.contract(words[0]), words[1:]))]


def validate_messages(
    bodies: Iterable[tuple[str, str]], registry: ContractRegistry
) -> Iterator[InputMessage | MessageError]:
    """Parse each message as its worker would."""
    for source, body in bodies:
        try:
            contract, message = registry.parse_body(body)
            contract.key(message)
        except InvalidInputError as error:
            yield MessageError(source, str(error))
        else:
            yield InputMessage(message.to_sent_dict(), source)


def _message(contract: type[AnyContract], fields: Sequence[str]) -> dict[str, object]:
    schema: dict[str, Any] = contract.message.model_json_schema()
    known: dict[str, dict[str, Any]] = schema["properties"]
    message: dict[str, object] = {"job": contract.job_type, "v": known["v"].get("const", 1)}
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals:
            raise usage_error(f"Invalid field {field!r}: write name=value, such as order_id=18452.")
        message[name] = _parse_value(value, known.get(name, {}))
    return message


def _parse_value(value: str, field: Mapping[str, Any]) -> object:
    """Convert to the contract's type: an order id stays text, an amount becomes a number."""
    json_types = {one.get("type") for one in (field, *field.get("anyOf", ()))}
    if "string" in json_types or not json_types - {None, "null"}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value  # the contract's validation reports it
