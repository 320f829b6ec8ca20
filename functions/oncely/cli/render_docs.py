"""Writes the pages that the code itself can tell: messages, schemas, providers, the command."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from oncely.cli import command_docs as command_page
from oncely.contract import AnyContract
from oncely.domain.keys import MAX_KEY_LENGTH
from oncely.domain.profiles import ProviderProfile
from oncely.jobs import CONTRACTS
from oncely.registry import MAX_DEPTH, MAX_DIGITS, MAX_EXPONENT, MIN_EXPONENT

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
_NONE: Final = "none"
_COMMAND_NOTICE: Final = "<!-- Written by `make docs` from the command itself. -->"
_GENERATED_NOTICE: Final = "<!-- Written by `make docs`; change the contracts instead. -->"


def generated_files() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    schemas = {
        Path("schemas") / f"{contract_type.job_type}.v1.json": _json(
            contract_type.message.model_json_schema()
        )
        for contract_type in CONTRACTS
    }
    return {
        Path("messages.md"): "\n".join(_messages()),
        Path("providers.md"): "\n".join(_providers()),
        Path("command.md"): "\n".join(command_page.render_command_docs(_COMMAND_NOTICE)),
        **schemas,
    }


def find_stale(folder: Path = DOCS) -> list[Path]:
    """The generated files that do not say what the code says."""
    return [
        name
        for name, text in generated_files().items()
        if not (folder / name).exists() or (folder / name).read_text() != text
    ]


def write_all(folder: Path = DOCS) -> None:
    """Write every generated file."""
    for name, text in generated_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _messages() -> Iterator[str]:
    yield "# Messages"
    yield ""
    yield _GENERATED_NOTICE
    yield ""
    yield "A message is one JSON object of at most 64 kB."
    yield (
        f"DynamoDB must be able to store it: at most {MAX_DIGITS} digits in a number, numbers from "
        f"1E{MIN_EXPONENT} up to 9.99E+{MAX_EXPONENT}, at most {MAX_DEPTH} levels of nesting, "
        "and no name that is empty."
    )
    yield "`job` and `v` are always there; a field that is not listed is refused."
    yield "A message that cannot be worked goes to the rejects queue with the reason."
    yield "Sending the same job twice is always safe: it runs once."
    yield ""
    yield "Three things that a JSON schema cannot say, or that its readers differ on:"
    yield ""
    yield '- A whole number is written as one: `5`, not `5.0` and not `"5"`.'
    yield f"- A job key has at most {MAX_KEY_LENGTH} characters. ASCII letters, digits and `_.@#+-`"
    yield "  take one, every byte of another character takes three: such an id must be shorter."
    yield "- An id of blanks alone is refused, and so is half of a character (a lone surrogate)."
    for contract_type in CONTRACTS:
        yield from _message(contract_type)


def _message(contract_type: type[AnyContract]) -> Iterator[str]:
    schema = contract_type.message.model_json_schema()
    queue = f"{contract_type.resources.queue.upper()}_QUEUE_URL"
    yield ""
    yield f"## {contract_type.job_type}"
    yield ""
    yield str(contract_type.message.__doc__)
    yield ""
    yield "| field | type | |"
    yield "|---|---|---|"
    for name, field in schema["properties"].items():
        needed = "always" if name in schema["required"] else "optional"
        yield f"| `{name}` | {_type(field)} | {needed} |"
    yield ""
    yield "```sh"
    yield f'aws sqs send-message --queue-url "${queue}" \\'
    yield f"  --message-body '{json.dumps(contract_type.example.model_dump(exclude_unset=True))}'"
    yield "```"
    yield ""
    key = contract_type.key(contract_type.example)
    yield f"Its job key is `{key}`. [JSON schema](schemas/{contract_type.job_type}.v1.json)"
    yield ""
    yield "```"
    yield contract_type.describe()
    yield "```"


def _providers() -> Iterator[str]:
    yield "# Providers"
    yield ""
    yield _GENERATED_NOTICE
    yield ""
    yield "What decisions rest on, for each provider."
    yield ""
    profiles = {
        contract_type.policy.profile.name: contract_type.policy.profile
        for contract_type in CONTRACTS
    }
    yield "| | " + " | ".join(profiles) + " |"
    yield "|---|" + "---|" * len(profiles)
    for row, cells in _rows(list(profiles.values())):
        yield f"| {row} | " + " | ".join(cells) + " |"
    for name, profile in profiles.items():
        yield ""
        yield f"## {name}"
        yield ""
        yield from (f"- {fact}" for fact in profile.facts)
    yield ""


def _rows(profiles: list[ProviderProfile]) -> Iterator[tuple[str, list[str]]]:
    yield "a request is waited for", [f"{p.request_timeout.seconds} s" for p in profiles]
    yield "requests in one run, at most", [str(p.max_calls + p.max_closing_calls) for p in profiles]
    yield "a key is safe for", [_hours(p) for p in profiles]
    yield "a key is unique within", [p.key_scope for p in profiles]
    yield "longest key", [str(p.max_key_length) if p.key_ttl else _NONE for p in profiles]
    yield "“not there” may be stale for", [_lag(p) for p in profiles]


def _lag(profile: ProviderProfile) -> str:
    lag = profile.lookup_lag
    return "cannot be asked" if lag is None else f"{lag.seconds} s"


def _hours(profile: ProviderProfile) -> str:
    if profile.key_ttl is None:
        return _NONE
    safe = profile.key_ttl - profile.key_ttl_margin
    return f"{safe.total_seconds() / 3600:g} hours from the first send"


def _type(field: dict[str, Any]) -> str:
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "anyOf" in field:
        return _type(next(one for one in field["anyOf"] if one.get("type") != "null"))
    limits = {
        "minimum": "at least {}",
        "exclusiveMinimum": "above {}",
        "maximum": "at most {}",
        "maxLength": "at most {} characters",
    }
    bounds = [text.format(field[name]) for name, text in limits.items() if name in field]
    described = [field["description"]] if "description" in field else []
    return ", ".join([str(field.get("type", "any")), *bounds, *described])


def _json(content: object) -> str:
    return json.dumps(content, indent=2) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        names = ", ".join(map(str, find_stale()))
        sys.exit(f"not current, run make docs: {names}" if names else 0)
    write_all()
