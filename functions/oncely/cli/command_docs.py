"""Writes docs/command.md: what every command takes, from the command itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import typer.main

from oncely.cli.exits import DESCRIPTIONS, ExitCode
from oncely.cli.main import app

# Options that every command with a place has are told once.
_SHARED_OPTIONS: Final = ("stack", "profile", "region", "local")
_HIDDEN_OPTIONS: Final = ("help", "install_completion", "show_completion")
_EXAMPLES: Final[Mapping[str, Sequence[str]]] = {
    "find": ("oncely find 18452", "oncely find customer_7 --json"),
    "show": ("oncely show payment.charge:order_18452",),
    "list": (
        "oncely list --status needs_review",
        "oncely list --type payment.charge --since 24h --limit 100 --json",
    ),
    "contracts": ("oncely contracts payment.charge",),
    "archive about": ("oncely archive about 18452", "oncely archive about customer_7 --since 30d"),
    "archive gaps": ("oncely archive gaps",),
    "archive backfill": (
        "oncely archive backfill --dry-run",
        "oncely archive backfill --since 2026-05-01",
    ),
    "doctor": ("oncely doctor --stack Oncely-prod",),
    "send": (
        "oncely send payment.charge order_id=18452",
        """oncely send '{"job": "payment.charge", "v": 1, "order_id": "18452"}'""",
        "oncely send --file jobs.jsonl",
    ),
    "repair": (
        "oncely repair payment.charge:order_18452 lookup --reason 'the customer asks'",
        "oncely repair payment.charge:order_18452 mark-failed --reason 'refused at Stripe' --dry-run",
    ),
    "redrive": ("oncely redrive --dry-run", "oncely redrive --type payment.charge --yes"),
    "reconcile": (
        "oncely reconcile --dry-run",
        "oncely reconcile payment.charge:order_18452",
        "oncely reconcile --type payment.charge --since 24h",
    ),
    "restore-proofs": (
        "oncely restore-proofs --replacement --dry-run",
        "oncely restore-proofs --replacement",
        "oncely restore-proofs --copy",
    ),
    "new-job": ("oncely new-job refund.issue --safety keyed",),
    "demo": ("oncely demo --jobs 100",),
    "local": ("oncely local", "oncely local redeploy"),
}


def render_command_docs(notice: str) -> Iterator[str]:
    """The page, line by line."""
    yield "# The `oncely` command"
    yield ""
    yield notice
    yield ""
    yield "`make setup` installs it into `.venv/bin`; put that on your path with"
    yield '`export PATH="$PWD/.venv/bin:$PATH"`. In a clone, `pipx install ".[command]"` installs'
    yield "it for every folder, with the SDKs by which a repair asks the providers."
    yield "`oncely --install-completion` lets your shell complete commands, job types and statuses."
    yield ""
    yield from _stack_options()
    yield from _exit_codes()
    yield from _json_output()
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        for inner, one in getattr(command, "commands", {"": command}).items():
            yield from _command(f"{name} {inner}".strip(), one)


def _stack_options() -> Iterator[str]:
    yield "## Where it works"
    yield ""
    yield "| option | |"
    yield "|---|---|"
    yield "| `--stack NAME` | the stack, `Oncely-dev` unless `ONCELY_STACK` says otherwise |"
    yield "| `--profile NAME` | an AWS profile; else the environment decides, as for the AWS CLI |"
    yield "| `--region NAME` | an AWS region; else `AWS_REGION` |"
    yield "| `--local` | the stack that `make local` runs on this machine |"
    yield ""
    yield "Everything else is read from the stack's outputs. `AWS_ENDPOINT_URL` is honoured."
    yield ""


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes"
    yield ""
    yield "| code | |"
    yield "|---|---|"
    for code in ExitCode:
        yield f"| {code:d} | {DESCRIPTIONS[code]} |"
    yield ""


def _json_output() -> Iterator[str]:
    yield "## For programs"
    yield ""
    yield "`--json` prints one JSON object a line, in ASCII, on the standard output; progress and"
    yield "complaints go to the standard error. A job looks the same in every command and in the"
    yield "page's API. Fields may be added; none is renamed."
    yield ""
    yield "A command that changes jobs asks first on a terminal. Elsewhere it wants `--yes`."
    yield ""


def _command(name: str, command: Any) -> Iterator[str]:  # noqa: ANN401  # typer's own
    yield f"## oncely {name}"
    yield ""
    yield str(command.help).strip()
    yield ""
    yield "```sh"
    yield from _EXAMPLES[name]
    yield "```"
    yield ""
    parameters = [
        one for one in command.params if one.name not in (*_SHARED_OPTIONS, *_HIDDEN_OPTIONS)
    ]
    if not parameters:
        return
    yield "| | |"
    yield "|---|---|"
    for one in parameters:
        yield f"| {_format_parameter(one)} | {_describe_parameter(one)} |"
    yield ""


def _format_parameter(parameter: Any) -> str:  # noqa: ANN401  # typer's own
    if parameter.param_type_name == "argument":
        spelled = f"`{parameter.name.upper()}`"
        return spelled if parameter.required else f"[{spelled}]"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    return names if not parameter.required else f"{names} (always)"


def _describe_parameter(parameter: Any) -> str:  # noqa: ANN401  # typer's own
    default = parameter.default
    plain = isinstance(default, str | int) and not isinstance(default, bool)
    return f"{parameter.help} Default: {default}." if plain else str(parameter.help)
