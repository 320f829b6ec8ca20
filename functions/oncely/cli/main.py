"""The `oncely` command: its subcommands, and how it reports errors."""

from importlib import metadata
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from oncely.alerts.headlines import sentence
from oncely.cli import (
    archive,
    audit,
    bulk,
    contracts,
    doctor,
    erase,
    jobs,
    local_stack,
    lock,
    pause,
    reconcile,
    redrive,
    rejects,
    repair,
    restore_proofs,
    scaffold,
    schemas,
    send,
)
from oncely.cli.console import print_error
from oncely.cli.errors import DESCRIPTIONS, CommandError, ExitCode, describe_aws_error, text_for
from oncely.core.errors import InvalidInputError, OncelyError

_EXIT_CODES: Final = "\n".join(f"- {code:d}: {DESCRIPTIONS[code]}" for code in ExitCode)


class ErrorHandlingGroup(TyperGroup):
    """Ends a failed command with one message and an exit code, never with a stack trace."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401  # typer's signature
        return _without_flag_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  # typer's signature
        name, command, rest = super().resolve_command(ctx, args)
        for one in (command, *getattr(command, "commands", {}).values()):
            _without_flag_types(one.get_params(ctx))
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # typer's signature
        try:
            return super().invoke(ctx)
        except CommandError as error:
            print_error(error.message)
            raise typer.Exit(error.code) from error
        except OncelyError as error:
            print_error(text_for(ctx.invoked_subcommand, sentence(str(error)), error))
            refused = isinstance(error, InvalidInputError)
            raise typer.Exit(ExitCode.REFUSED if refused else ExitCode.UNREACHABLE) from error
        except ModuleNotFoundError as error:
            print_error(
                f"Package {error.name} is not installed. Install the command again with the extra "
                'of each provider, as in `pipx install --force ".[command,acme]"` in a clone.'
            )
            raise typer.Exit(ExitCode.UNREACHABLE) from error
        except Exception as error:
            if (message := describe_aws_error(error)) is None:
                raise
            print_error(text_for(ctx.invoked_subcommand, message))
            raise typer.Exit(ExitCode.UNREACHABLE) from error


def _without_flag_types(params: list[Any]) -> list[Any]:
    """Keep the help from showing `<bool>` beside an option without a value."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


app: Final = typer.Typer(
    name="oncely",
    cls=ErrorHandlingGroup,
    help="Send, find and repair background jobs.",
    epilog=f"Exit codes:\n\n{_EXIT_CODES}",
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

app.command(rich_help_panel=_INSPECT)(jobs.find)
app.command(rich_help_panel=_INSPECT)(jobs.show)
app.command("list", rich_help_panel=_INSPECT)(jobs.list_jobs)
app.command(rich_help_panel=_INSPECT)(contracts.contracts)
app.command(rich_help_panel=_INSPECT)(pause.gates)
app.command(rich_help_panel=_INSPECT)(doctor.doctor)
app.add_typer(archive.app, name="archive", rich_help_panel=_INSPECT)
app.add_typer(audit.app, name="audit", rich_help_panel=_INSPECT)
app.add_typer(rejects.app, name="rejects", rich_help_panel=_OPERATE)
app.command(rich_help_panel=_OPERATE)(send.send)
app.command(rich_help_panel=_OPERATE)(repair.repair)
app.command(rich_help_panel=_OPERATE)(repair.cancel)
app.add_typer(bulk.app, name="bulk", rich_help_panel=_OPERATE)
app.command(rich_help_panel=_OPERATE)(redrive.redrive)
app.command(rich_help_panel=_OPERATE)(reconcile.reconcile)
app.command(rich_help_panel=_OPERATE)(pause.pause)
app.command(rich_help_panel=_OPERATE)(pause.resume)
app.command(rich_help_panel=_OPERATE)(erase.erase)
app.command("restore-proofs", rich_help_panel=_OPERATE)(restore_proofs.restore_proofs)
app.command(rich_help_panel=_DEVELOP)(scaffold.init)
app.command("new-job", rich_help_panel=_DEVELOP)(scaffold.new_job)
app.command(rich_help_panel=_DEVELOP)(schemas.schemas)
app.command(rich_help_panel=_DEVELOP)(lock.lock)
for command in (local_stack.demo, local_stack.local):
    app.command(
        rich_help_panel=_DEVELOP, context_settings=local_stack.PASS_THROUGH, add_help_option=False
    )(command)


def run() -> None:
    """Run the installed command."""
    app(prog_name="oncely")
