"""The local stack: `oncely demo`, `oncely local`, and what `--local` needs to reach it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import typer

from oncely.cli.errors import CommandError, ExitCode

STATE_FILE: Final = Path(".build") / "local.json"
# `demo` and `local` parse their own options, `--help` included.
PASS_THROUGH: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
_REGION: Final = "us-east-1"


def find_repository() -> Path:
    """Return the clone of Oncely: the current folder, a parent, or the one this file is in."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[3]):
        if all((folder / name).is_dir() for name in ("infra/oncely_cdk", "functions/oncely")):
            return folder
    raise CommandError("This command needs a clone of Oncely. Run it inside one.")


@dataclass(frozen=True, kw_only=True)
class LocalState:
    """The endpoint and stack name that `make local` writes to its state file."""

    endpoint: str
    stack: str
    region: str

    @classmethod
    def read(cls) -> Self:
        try:
            found = json.loads((find_repository() / STATE_FILE).read_text())
            if "pid" in found:
                os.kill(int(found["pid"]), 0)  # raises if the process was killed
            return cls(
                endpoint=str(found["endpoint"]),
                stack=str(found.get("stack", "Oncely-local")),
                region=str(found.get("region", _REGION)),
            )
        except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
            raise CommandError(
                "No local stack is running. In a clone of Oncely, start one with `make local`.",
                ExitCode.UNREACHABLE,
            ) from error

    def boto3_env(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }


def demo(ctx: typer.Context) -> None:
    """Run hundreds of jobs under faults.

    For its options, run `oncely demo --help`. `make demo ARGS="…"` takes the same ones.
    """
    _run("demo", ctx)


def local(ctx: typer.Context) -> None:
    """Run the stack on this machine until Ctrl-C.

    In another terminal, use `oncely local redeploy` and `oncely local logs`.
    """
    _run("local", ctx)


def _run(command: str, ctx: typer.Context) -> None:
    # A separate process: the clone's environment has packages that the command does not need.
    folder = find_repository()
    own = folder / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    roots = os.pathsep.join(str(folder / name) for name in ("functions", "infra", "."))
    try:
        done = subprocess.run(  # noqa: S603  # runs this clone's code
            [python, "-m", "oncely_local", command, *ctx.args],
            cwd=folder,
            check=False,
            env={**os.environ, "PYTHONPATH": roots},
        )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(done.returncode)
