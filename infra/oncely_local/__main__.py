"""Run the stack on this machine: `make demo`, `make local`."""

import sys

import typer

from oncely.cli.errors import CommandError
from oncely_local.demo import demo
from oncely_local.local import local

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help=__doc__,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(local)


def main() -> None:
    """Run the command in the project of the working folder."""
    try:
        app()
    except CommandError as error:
        sys.exit(error.message)


if __name__ == "__main__":
    main()
