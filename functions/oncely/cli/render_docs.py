"""Writes the docs pages that are built from code: messages, schemas, providers, the command."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
import typer.cli
import typer.main

from oncely.cli.main import app
from oncely.contract import AnyContract
from oncely.domain.keys import MAX_KEY_LENGTH
from oncely.domain.profiles import ProviderProfile
from oncely.jobs import CONTRACTS
from oncely.registry import MAX_DEPTH, MAX_DIGITS, MAX_EXPONENT, MIN_EXPONENT

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
_NONE: Final = "none"
_NOTICE: Final = "<!-- Written by `make docs` from the code. -->"
_COMMAND_INTRO: Final = """\
# The `oncely` command

{notice}

`make setup` installs it into `.venv/bin`. Add that to your path with
`export PATH="$PWD/.venv/bin:$PATH"`. To install it for every folder, run
`pipx install ".[command]"` in a clone: this includes the provider SDKs that repairs need.
`oncely --install-completion` completes commands, job types and statuses in your shell.

Commands find everything through the stack's outputs. `AWS_ENDPOINT_URL` is honored.
A command that changes jobs prompts for confirmation. Without a terminal it needs `--yes`.

`--json` prints one ASCII JSON object per line to stdout. Progress and errors go to stderr.
A job has the same fields in every command and in the admin page's API. Fields may be added,
but none is renamed.

"""


def generated_files() -> dict[Path, str]:
    """Return the content of every generated file."""
    schemas = {
        Path("schemas") / f"{contract_type.job_type}.v1.json": _json(
            contract_type.message.model_json_schema()
        )
        for contract_type in CONTRACTS
    }
    return {
        Path("messages.md"): "\n".join(_messages()),
        Path("providers.md"): "\n".join(_providers()),
        Path("command.md"): _command(),
        **schemas,
    }


def find_stale(folder: Path = DOCS) -> list[Path]:
    """Return the generated files that do not match the code."""
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


def _command() -> str:
    group = typer.main.get_command(app)
    docs = typer.cli.get_docs_for_click(
        obj=group, ctx=typer.Context(group, info_name="oncely"), name="oncely", indent=1
    )
    return _COMMAND_INTRO.format(notice=_NOTICE) + docs.strip() + "\n"


def _messages() -> Iterator[str]:
    yield from ("# Messages", "", _NOTICE, "")
    yield "A message is one JSON object of at most 64 kB."
    yield (
        f"DynamoDB must be able to store it: at most {MAX_DIGITS} digits in a number, numbers from "
        f"1E{MIN_EXPONENT} to 9.99E+{MAX_EXPONENT}, at most {MAX_DEPTH} levels of nesting, "
        "and no empty names."
    )
    yield "`job` and `v` are required. Fields that are not listed are rejected."
    yield "An invalid message goes to the rejects queue with the reason."
    yield "Duplicates are safe: a job runs once."
    rules = "Three rules that a JSON schema cannot express, or that validators disagree on:"
    yield from ("", rules, "")
    yield '- An integer is written as one: `5`, not `5.0` and not `"5"`.'
    yield f"- A job key has at most {MAX_KEY_LENGTH} characters. ASCII letters, digits and"
    yield "  `_.@#+-` take one. Every byte of another character takes three."
    yield "- An id that is blank or contains a lone surrogate is rejected."
    for contract_type in CONTRACTS:
        yield from _message(contract_type)


def _message(contract_type: type[AnyContract]) -> Iterator[str]:
    schema = contract_type.message.model_json_schema()
    queue = f"{contract_type.resources.queue.upper()}_QUEUE_URL"
    yield from ("", f"## {contract_type.job_type}", "", str(contract_type.message.__doc__), "")
    yield from ("| field | type | |", "|---|---|---|")
    for name, field in schema["properties"].items():
        needed = "required" if name in schema["required"] else "optional"
        yield f"| `{name}` | {_type(field)} | {needed} |"
    yield from ("", "```sh")
    yield f'aws sqs send-message --queue-url "${queue}" \\'
    yield f"  --message-body '{json.dumps(contract_type.example.model_dump(exclude_unset=True))}'"
    yield from ("```", "")
    key = contract_type.key(contract_type.example)
    yield f"Its job key is `{key}`. [JSON schema](schemas/{contract_type.job_type}.v1.json)"
    yield from ("", "```", contract_type.describe(), "```")


def _providers() -> Iterator[str]:
    yield from ("# Providers", "", _NOTICE, "")
    yield from ("The facts about each provider that decisions rest on.", "")
    profiles = {one.policy.profile.name: one.policy.profile for one in CONTRACTS}
    yield "| | " + " | ".join(profiles) + " |"
    yield "|---|" + "---|" * len(profiles)
    for row, cells in _rows(list(profiles.values())):
        yield f"| {row} | " + " | ".join(cells) + " |"
    for name, profile in profiles.items():
        yield from ("", f"## {name}", "")
        yield from (f"- {fact}" for fact in profile.facts)
    yield ""


def _rows(profiles: list[ProviderProfile]) -> Iterator[tuple[str, list[str]]]:
    yield "request timeout", [f"{p.request_timeout.seconds} s" for p in profiles]
    yield "maximum requests in one run", [str(p.max_calls + p.max_closing_calls) for p in profiles]
    yield "idempotency key is safe for", [_hours(p) for p in profiles]
    yield "idempotency key is unique within", [p.key_scope for p in profiles]
    yield "maximum key length", [str(p.max_key_length) if p.key_ttl else _NONE for p in profiles]
    yield "a lookup may miss a new effect for", [_lag(p) for p in profiles]


def _lag(profile: ProviderProfile) -> str:
    lag = profile.lookup_lag
    return "no lookup" if lag is None else f"{lag.seconds} s"


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
