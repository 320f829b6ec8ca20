"""The `oncely` command: its subcommands, and how it reports errors."""

from collections.abc import Callable
from importlib import metadata
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from oncely.cli import (
    archive,
    contracts,
    doctor,
    find,
    list_jobs,
    local_stack,
    new_job,
    reconcile,
    redrive,
    repair,
    restore_proofs,
    send,
)
from oncely.cli.console import capitalize_sentence, print_error
from oncely.cli.errors import DESCRIPTIONS, CommandError, ExitCode, describe_aws_error
from oncely.domain.errors import InvalidInputError, OncelyError

_EPILOG: Final = "Exit codes:\n\n" + "\n".join(
    f"- {code:d}: {DESCRIPTIONS[code]}" for code in ExitCode
)


class ErrorHandlingGroup(TyperGroup):
    """Ends a failed command with one message and an exit code, never with a stack trace."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # typer's signature
        try:
            return super().invoke(ctx)
        except CommandError as error:
            print_error(error.message)
            raise typer.Exit(error.code) from error
        except OncelyError as error:
            print_error(capitalize_sentence(str(error)))
            refused = isinstance(error, InvalidInputError)
            raise typer.Exit(ExitCode.REFUSED if refused else ExitCode.UNREACHABLE) from error
        except ModuleNotFoundError as error:
            print_error(
                f"Package {error.name} is not installed. Install the command again from a clone "
                'with `pipx install --force ".[command]"`.'
            )
            raise typer.Exit(ExitCode.UNREACHABLE) from error
        except Exception as error:
            if (message := describe_aws_error(error)) is None:
                raise
            print_error(message)
            raise typer.Exit(ExitCode.UNREACHABLE) from error


app: Final = typer.Typer(
    name="oncely",
    cls=ErrorHandlingGroup,
    help="Send, find and repair background jobs.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:  # noqa: FBT001  # typer calls it so
    if requested:
        typer.echo(f"oncely {metadata.version('oncely')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


_INSPECT: Final = "Inspect"
_OPERATE: Final = "Operate"
_DEVELOP: Final = "Develop"
# Each command with the examples that end its help.
_COMMANDS: Final[tuple[tuple[str, str, Callable[..., None], tuple[str, ...]], ...]] = (
    (_INSPECT, "find", find.find, ("18452", "customer_7 --json")),
    (_INSPECT, "show", find.show, ("payment.charge:order_18452",)),
    (
        _INSPECT,
        "list",
        list_jobs.list_jobs,
        ("--status needs_review", "--type payment.charge --since 24h --limit 100 --json"),
    ),
    (_INSPECT, "contracts", contracts.contracts, ("payment.charge",)),
    (_INSPECT, "doctor", doctor.doctor, ("--stack Oncely-prod",)),
    (
        _OPERATE,
        "send",
        send.send,
        (
            "payment.charge order_id=18452",
            """'{"job": "payment.charge", "v": 1, "order_id": "18452"}'""",
            "--file jobs.jsonl",
        ),
    ),
    (
        _OPERATE,
        "repair",
        repair.repair,
        (
            "payment.charge:order_18452 lookup --reason 'customer asked'",
            "payment.charge:order_18452 mark-failed --reason declined --dry-run",
        ),
    ),
    (_OPERATE, "redrive", redrive.redrive, ("--dry-run", "--type payment.charge --yes")),
    (
        _OPERATE,
        "reconcile",
        reconcile.reconcile,
        ("--dry-run", "payment.charge:order_18452", "--type payment.charge --since 24h"),
    ),
    (
        _OPERATE,
        "restore-proofs",
        restore_proofs.restore_proofs,
        ("--replacement --dry-run", "--replacement", "--copy"),
    ),
    (_DEVELOP, "new-job", new_job.new_job, ("refund.issue --safety keyed",)),
)

for panel, name, command, examples in _COMMANDS:
    lines = "\n".join(f"- `oncely {name} {example}`" for example in examples)
    app.command(name, rich_help_panel=panel, epilog=f"Examples:\n\n{lines}")(command)
app.add_typer(archive.app, name="archive", rich_help_panel=_INSPECT)
for command in (local_stack.demo, local_stack.local):
    app.command(
        rich_help_panel=_DEVELOP,
        context_settings=local_stack.PASS_THROUGH,
        add_help_option=False,
    )(command)


def run() -> None:
    """Run the installed command."""
    app(prog_name="oncely")
