"""The `oncely` command: what it can do, and how it ends when something is wrong."""

import sys
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
    new_job,
    reconcile,
    redrive,
    repair,
    restore_proofs,
    send,
)
from oncely.cli import local_commands as this_machine
from oncely.cli.console import capitalize_sentence, print_error
from oncely.cli.exits import DESCRIPTIONS, CommandError, ExitCode
from oncely.domain.errors import InvalidInputError, OncelyError

_EPILOG: Final = "Exit codes: " + " · ".join(f"{code:d} {DESCRIPTIONS[code]}" for code in ExitCode)


class ErrorHandlingGroup(TyperGroup):
    """A command that cannot go on ends with one sentence and a code, never with a trace."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # typer's own
        """Run the command that was asked for."""
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
                f"The package {error.name} is not installed beside this command: install it again "
                'from a clone, with `pipx install --force ".[command]"`.'
            )
            raise typer.Exit(ExitCode.UNREACHABLE) from error
        except Exception as error:
            # Whoever met AWS has imported it; the others need not wait for it.
            if "botocore" not in sys.modules or (message := _aws_error_message(error)) is None:
                raise
            print_error(message)
            raise typer.Exit(ExitCode.UNREACHABLE) from error


def _aws_error_message(error: Exception) -> str | None:
    from botocore.exceptions import BotoCoreError, ClientError

    from oncely.cli import aws_errors as trouble

    return (
        trouble.describe_aws_error(error)
        if isinstance(error, BotoCoreError | ClientError)
        else None
    )


app: Final = typer.Typer(
    name="oncely",
    cls=ErrorHandlingGroup,
    help="Background jobs that run once: send them, look them up, repair them.",
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
            "--version", is_eager=True, callback=_print_version, help="Show the version and end."
        ),
    ] = False,
) -> None:
    pass


_INSPECT_PANEL: Final = "Look"
_OPERATE_PANEL: Final = "Act"
_DEVELOP_PANEL: Final = "Build"

app.command(rich_help_panel=_INSPECT_PANEL)(find.find)
app.command(rich_help_panel=_INSPECT_PANEL)(find.show)
app.command("list", rich_help_panel=_INSPECT_PANEL)(list_jobs.list_jobs)
app.command(rich_help_panel=_INSPECT_PANEL)(contracts.contracts)
app.command(rich_help_panel=_INSPECT_PANEL)(doctor.doctor)
app.add_typer(archive.app, name="archive", rich_help_panel=_INSPECT_PANEL)
app.command(rich_help_panel=_OPERATE_PANEL)(send.send)
app.command(rich_help_panel=_OPERATE_PANEL)(repair.repair)
app.command(rich_help_panel=_OPERATE_PANEL)(redrive.redrive)
app.command(rich_help_panel=_OPERATE_PANEL)(reconcile.reconcile)
app.command("restore-proofs", rich_help_panel=_OPERATE_PANEL)(restore_proofs.restore_proofs)
app.command("new-job", rich_help_panel=_DEVELOP_PANEL)(new_job.new_job)
for command in (this_machine.demo, this_machine.local):
    # Their options, and so their help, are told by what they run.
    app.command(
        rich_help_panel=_DEVELOP_PANEL,
        context_settings=this_machine.PASS_THROUGH,
        add_help_option=False,
    )(command)


def run() -> None:
    """Where the installed command begins."""
    app(prog_name="oncely")
