"""`oncely demo` and `oncely local`: the whole stack on this machine, from a clone."""

import os
import subprocess
import sys

import typer

from oncely.cli.repository import find_repository

PASS_THROUGH: dict[str, bool] = {"allow_extra_args": True, "ignore_unknown_options": True}


def demo(ctx: typer.Context) -> None:
    """Send hundreds of jobs through the stack while everything goes wrong.

    `oncely demo --help` lists its options; `make demo ARGS="…"` takes the same.
    """
    _run("demo", ctx)


def local(ctx: typer.Context) -> None:
    """Run the stack on this machine until Ctrl-C.

    `oncely local redeploy` and `oncely local logs` are for another terminal.
    """
    _run("local", ctx)


def _run(command: str, ctx: typer.Context) -> None:
    """In a process of its own: the clone has packages that the command does not need."""
    folder = find_repository()
    own = folder / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    roots = os.pathsep.join((str(folder / "functions"), str(folder / "infra")))
    try:
        done = subprocess.run(  # noqa: S603  # this clone's own
            [python, "-m", "oncely_local", command, *ctx.args],
            cwd=folder,
            check=False,
            env={**os.environ, "PYTHONPATH": roots},
        )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(done.returncode)
