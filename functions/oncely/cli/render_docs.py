"""Writes the docs pages that are built from code, and the schemas of the messages."""

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import typer
import typer.cli
import typer.main

from oncely.cli.main import app
from oncely.cli.project import project_jobs
from oncely.cli.schemas import TYPES_FILE, json_files, typescript_types
from oncely.contracts.job import AnyJob, providers_of
from oncely.contracts.registry import MAX_DEPTH, MAX_DIGITS, MAX_EXPONENT, MIN_EXPONENT
from oncely.contracts.table_schema import KeySchema, TableSchema
from oncely.core.keys import MAX_KEY_LENGTH
from oncely.core.profiles import ProviderProfile
from oncely.plugins.facts import Fact, ProviderFacts
from oncely.plugins.provider import AnyProvider

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
_SCHEMAS: Final = Path("../functions/oncely/schemas")  # in the wheel
_NONE: Final = "none"
_NOTICE: Final = "<!-- Written by `make docs` from the code. -->"
_COMMAND_INTRO: Final = """\
# The `oncely` command

{notice}

Every command with its options and exit codes.
`make setup` installs it into `.venv/bin`. Add that to your path with
`export PATH="$PWD/.venv/bin:$PATH"`. To install it for every folder, run
`pipx install ".[command]"` in a clone. A repair that asks a provider needs the provider's extra,
as in `".[command,acme]"`.
`oncely --install-completion` completes commands, job types and statuses in your shell.

Commands find everything through the stack's outputs. The job types are those that `[tool.oncely]`
in the `pyproject.toml` of this folder or a parent names: `jobs = ["shop.jobs:JOBS"]`, a list of
contracts, or the contracts themselves. Elsewhere, set `ONCELY_JOBS` to the names.
`AWS_ENDPOINT_URL` is honored.
A command that changes jobs prompts for confirmation. Without a terminal it needs `--yes`.

`--json` prints one ASCII JSON object per line to stdout. Progress and errors go to stderr.
A job has the same fields in every command and in the admin page's API. Fields may be added,
but none is renamed.

"""
_MODELS: Final = """\
Tests compare every request of a shipped client, and every response of its model, with what the
vendor publishes as data. They fail for a difference that is not in this list, and for one in it
that is gone.
"""
_NOT_DESCRIBED: Final = "No description is published as data. The vendor's SDK reads the responses."
_TABLES_INTRO: Final = """\
# Business tables

{notice}

The tables that the jobs read, and write in the transaction that ends a job: their keys, indexes and
columns, and how to use your own. The stack creates them unless you name yours. In a CDK app, pass a
table as an object: `Oncely(…, tables={{"orders": orders}})`. Otherwise name it in the stage's file:

```toml
[existing_tables]
orders = "shop-orders"

# Only if the table is encrypted with your own KMS key. Its policy must let IAM policies decide.
[existing_keys.tables]
orders = "arn:aws:kms:eu-west-1:111122223333:key/…"

# Only for columns that have another name in your table.
[table_columns.orders]
amount = "total_cents"
status = "payment_status"
```

- A mapped column is read and written under your name everywhere, in keys and indexes as well.
  If your table also has a column with the name that Oncely uses, Oncely ignores that column.
- A mapping changes names, not values. Give `status` a column of its own if yours has other values.
- Key columns are texts. A table whose key is a number cannot be used.
- An index that your table lacks is not queried. The reconciler then finds no row whose message
  was lost, so send messages from an [outbox](send-jobs.md#with-a-database-transaction).
- The stack changes nothing about your table. Enable point-in-time recovery, and TTL where a table
  below has it.

Synthesis refuses a mapping of an unknown column and, for a CDK table, a key that does not fit.
`oncely doctor` checks key, indexes and TTL, and the columns of up to 1,000 rows.
"""
_PROVIDERS_INTRO: Final = """\
# Provider facts

{notice}

What payment, CRM and email providers document of idempotency keys, lags, limits and errors, where
we read it and when, and what Oncely does because of it. The facts help without Oncely, too.

- A date is the day on which a stored copy of the page was read and said so. Pages change without
  notice: before you rely on a fact, read its source.
- "Not documented" means that no page was found that day. Oncely assumes the fact, on the safe side.
- "Not looked up" means that the fact is older than this register, or that a plug-in has none.

## Oncely's decisions

"""


def generated_files() -> dict[Path, str]:
    """Return the content of every generated file, by its path from the docs."""
    jobs = project_jobs()
    schemas = {**json_files(jobs), TYPES_FILE: typescript_types(jobs)}
    return {
        Path("messages.md"): "\n".join(_messages()),
        Path("providers.md"): "\n".join(_providers()),
        Path("tables.md"): "\n".join(_tables()),
        Path("command.md"): _command(),
        **{_SCHEMAS / name: text for name, text in schemas.items()},
    }


def find_stale() -> list[Path]:
    """Return the generated files that do not match the code."""
    return [
        name
        for name, text in generated_files().items()
        if not (DOCS / name).exists() or (DOCS / name).read_text() != text
    ]


def write_all() -> None:
    """Write every generated file."""
    for name, text in generated_files().items():
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(text)


def _command() -> str:
    group = typer.main.get_command(app)
    docs = typer.cli.get_docs_for_click(
        obj=group, ctx=typer.Context(group, info_name="oncely"), name="oncely", indent=1
    )
    return _COMMAND_INTRO.format(notice=_NOTICE) + docs.strip() + "\n"


def _messages() -> Iterator[str]:
    yield from ("# Messages", "", _NOTICE, "")
    yield "The message of each job type, its fields and an example, for the author of a producer."
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
    for contract_type in project_jobs():
        yield from _message(contract_type)


def _message(contract_type: type[AnyJob]) -> Iterator[str]:
    schema = contract_type.message_schema()
    queue = f"{contract_type.queue.upper()}_QUEUE_URL"
    yield from ("", f"## {contract_type.job_type}", "", contract_type.describe_fields().effect, "")
    yield from ("| field | type | |", "|---|---|---|")
    for name, field in schema["properties"].items():
        needed = "required" if name in schema["required"] else "optional"
        yield f"| `{name}` | {_type(field)} | {needed} |"
    yield from ("", "```sh")
    yield f'aws sqs send-message --queue-url "${queue}" \\'
    yield f"  --message-body '{json.dumps(contract_type.example_message())}'"
    yield from ("```", "")
    key = contract_type.model_validate(contract_type.example_message()).job_key()
    yield f"Its job key is `{key}`. [JSON schema]({_SCHEMAS}/{contract_type.job_type}.v1.json)"
    yield from ("", "```", str(contract_type.describe_fields()), "```")


def _providers() -> Iterator[str]:
    yield _PROVIDERS_INTRO.format(notice=_NOTICE).rstrip("\n")
    yield ""
    plugins = providers_of(project_jobs())
    profiles = [one.profile for one in plugins]
    yield "| | " + " | ".join(one.name for one in profiles) + " |"
    yield "|---|" + "---|" * len(profiles)
    for row, cells in _rows(profiles):
        yield f"| {row} | " + " | ".join(cells) + " |"
    yield from ("", "## The numbers behind them", "")
    yield from ("| provider | number | Oncely uses | read |", "|---|---|---|---|")
    for plugin in plugins:
        bases = {fact.of: fact for fact in facts_of(plugin).facts}
        for name, value in provider_numbers(plugin).items():
            basis = _basis(bases.get(name, Fact(says="")))
            yield f"| {plugin.profile.name} | {name} | {value} | {basis} |"
    for plugin in (one for one in plugins if one.facts):
        yield from _provider(plugin.profile.name, facts_of(plugin))
    # The models need packages that the command line does not.
    from oncely.testing.sandbox.provider_sandbox import sandbox_type

    yield from ("", "## Where a model knowingly differs", "", _MODELS)
    for plugin in plugins:
        if plugin.sandbox is not None:
            stated = sandbox_type(plugin).differs or (_NOT_DESCRIBED,)
            yield from (f"- {plugin.profile.name}: {one}" for one in stated)
    yield ""


def _provider(name: str, register: ProviderFacts) -> Iterator[str]:
    yield from ("", f"## {name}", "")
    for fact in register.facts:
        yield f"- {fact.says} *{_basis(fact)}*"
        if fact.does:
            yield f"  - **Oncely:** {fact.does}"
    if register.sdk is None:
        yield from ("", "Oncely calls it without an SDK, so none is compared with these facts.")
    else:
        sdk = register.sdk
        yield ""
        yield f"What its SDK `{sdk.package}` {sdk.version} knows of this, read {sdk.read}:"
        yield ""
        yield from (f"- `{word}`: {meaning}" for word, meaning in sdk.knows.items())
    yield from ("", "What else Oncely does:", "")
    yield from (f"- {note}" for note in register.notes)


def facts_of(plugin: AnyProvider) -> ProviderFacts:
    """Return the register of a provider. It is empty if the plug-in names none."""
    if plugin.facts is None:
        return ProviderFacts(facts=())
    found: ProviderFacts = resolve_name(plugin.facts)
    return found


def provider_numbers(plugin: AnyProvider) -> dict[str, str]:
    """Return the numbers that decisions take from a provider, by the names of `Fact.of`."""
    numbers = _numbers(plugin.profile)
    for contract in project_jobs():
        for policy in contract.policies.values():
            if policy.profile.name == plugin.profile.name:
                own = _numbers(policy.profile).items() - numbers.items()
                numbers |= {f"{name} of {contract.job_type}": value for name, value in sorted(own)}
    return numbers


def _numbers(profile: ProviderProfile) -> dict[str, str]:
    numbers = {}
    if profile.key_ttl is not None:
        numbers["key window"] = f"{profile.key_ttl / timedelta(hours=1):g} hours"
        numbers["key length"] = f"{profile.max_key_length} characters"
    if (lag := profile.lookup_lag) is not None:
        numbers["lookup lag"] = _duration(lag) if lag else "immediate"
    rates = {"effects": profile.effects_per_second, "lookups": profile.lookups_per_second}
    if each := " and ".join(f"{rate:g} {group}" for group, rate in rates.items() if rate):
        numbers["request rate"] = f"{each} a second"
    return numbers


def _duration(time: timedelta) -> str:
    minutes = time / timedelta(minutes=1)
    return f"{minutes:g} minutes" if minutes >= 1 else f"{time.total_seconds():g} seconds"


def _basis(fact: Fact) -> str:
    if fact.source:
        site = fact.source.removeprefix("https://").partition("/")[0]
        return f"[{site}]({fact.source}), {fact.read}"
    return "Not looked up" if fact.read is None else f"Not documented, {fact.read}"


def _tables() -> Iterator[str]:
    yield _TABLES_INTRO.format(notice=_NOTICE)
    tables = (table for one in project_jobs() for table in one.all_tables())
    for name, schema in sorted({t.name: t for t in tables if not isinstance(t, str)}.items()):
        yield from _table(name, schema)


def _table(name: str, schema: TableSchema) -> Iterator[str]:
    users = [one.job_type for one in project_jobs() if schema in one.all_tables()]
    yield from (f"## {name}", "", f"Used by {', '.join(f'`{one}`' for one in users)}.")
    yield f"Its key is {_key(schema.key)}."
    if not any(schema in one.writes for one in project_jobs()):
        yield "Oncely only reads it: no function and no policy of the stack can write it."
    if schema.has_ttl:
        yield "Rows with `expires_at` expire (TTL)."
    for index in schema.indexes:
        projected = ", ".join(f"`{one}`" for one in index.include)
        more = f", and projects {projected}" if projected else ""
        yield f"The index `{index.name}` has the key {_key(index.key)}{more}."
    if schema.columns:
        yield from ("", "| column | type | needed | |", "|---|---|---|---|")
    for column in schema.columns:
        needed = "required" if column.required else "optional"
        yield f"| `{column.name}` | {column.type.label} | {needed} | {column.description} |"
    yield ""


def _key(key: KeySchema) -> str:
    return " and ".join(f"`{one}`" for one in key.names)


def _rows(profiles: list[ProviderProfile]) -> Iterator[tuple[str, list[str]]]:
    yield "request timeout", [f"{p.request_timeout.seconds} s" for p in profiles]
    yield "maximum requests in one run", [str(p.max_calls + p.max_closing_calls) for p in profiles]
    yield "idempotency key is used for", [_hours(p) for p in profiles]
    yield "idempotency key is unique within", [p.key_scope for p in profiles]


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


if __name__ == "__main__":
    if "--check" in sys.argv:
        names = ", ".join(map(str, find_stale()))
        sys.exit(f"not current, run make docs: {names}" if names else 0)
    write_all()
