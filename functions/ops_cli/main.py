"""The `oncely` command: what it can do, and how it ends when something is wrong."""

import sys
from importlib import metadata
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from oncely.domain.errors import BadInputError, OncelyError
from ops_cli import (
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
    this_machine,
)
from ops_cli.exits import MEANINGS, CommandError, Exit
from ops_cli.screen import complain, sentence

_EPILOG: Final = "Exit codes: " + " · ".join(f"{code:d} {MEANINGS[code]}" for code in Exit)


class Commands(TyperGroup):
    """A command that cannot go on ends with one sentence and a code, never with a trace."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # typer's own
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except CommandError as error:
            complain(error.sentence)
            raise typer.Exit(error.code) from error
        except OncelyError as error:
            complain(sentence(str(error)))
            refused = isinstance(error, BadInputError)
            raise typer.Exit(Exit.REFUSED if refused else Exit.UNREACHABLE) from error
        except ModuleNotFoundError as error:
            complain(
                f"The package {error.name} is not installed beside this command: install it again "
                'from a clone, with `pipx install --force ".[command]"`.'
            )
            raise typer.Exit(Exit.UNREACHABLE) from error
        except Exception as error:
            # Whoever met AWS has imported it; the others need not wait for it.
            if "botocore" not in sys.modules or (said := _of_aws(error)) is None:
                raise
            complain(said)
            raise typer.Exit(Exit.UNREACHABLE) from error


def _of_aws(error: Exception) -> str | None:
    from botocore.exceptions import BotoCoreError, ClientError

    from ops_cli import trouble

    return trouble.sentence(error) if isinstance(error, BotoCoreError | ClientError) else None


app: Final = typer.Typer(
    name="oncely",
    cls=Commands,
    help="Background jobs that run once: send them, look them up, repair them.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(asked: bool) -> None:  # noqa: FBT001  # typer calls it so
    if asked:
        typer.echo(f"oncely {metadata.version('oncely')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_tell_version, help="Show the version and end."
        ),
    ] = False,
) -> None:
    pass


_LOOK: Final = "Look"
_ACT: Final = "Act"
_BUILD: Final = "Build"

app.command(rich_help_panel=_LOOK)(find.find)
app.command(rich_help_panel=_LOOK)(find.show)
app.command("list", rich_help_panel=_LOOK)(list_jobs.list_jobs)
app.command(rich_help_panel=_LOOK)(contracts.contracts)
app.command(rich_help_panel=_LOOK)(doctor.doctor)
app.add_typer(archive.app, name="archive", rich_help_panel=_LOOK)
app.command(rich_help_panel=_ACT)(send.send)
app.command(rich_help_panel=_ACT)(repair.repair)
app.command(rich_help_panel=_ACT)(redrive.redrive)
app.command(rich_help_panel=_ACT)(reconcile.reconcile)
app.command("restore-proofs", rich_help_panel=_ACT)(restore_proofs.restore_proofs)
app.command("new-job", rich_help_panel=_BUILD)(new_job.new_job)
for command in (this_machine.demo, this_machine.local):
    # Their options, and so their help, are told by what they run.
    app.command(rich_help_panel=_BUILD, context_settings=this_machine.ANY, add_help_option=False)(
        command
    )


def run() -> None:
    """Where the installed command begins."""
    app(prog_name="oncely")
