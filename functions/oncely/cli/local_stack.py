"""The local stack: `oncely demo`, `oncely local`, and what `--local` needs to reach it."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

import typer

from oncely.cli.errors import CommandError, ExitCode
from oncely.cli.project import find_project

STATE_FILE: Final = Path(".build") / "local.json"
# `demo` and `local` parse their own options, `--help` included.
PASS_THROUGH: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
# Of the extras that it needs.
_PACKAGES: Final = ("aws_cdk", "greenlet")
_REGION: Final = "us-east-1"


@dataclass(frozen=True, kw_only=True)
class LocalState:
    """The endpoint and stack name that `oncely local` writes to its state file."""

    endpoint: str
    stack: str
    region: str

    @classmethod
    def read(cls) -> Self:
        try:
            found = json.loads((find_project().folder / STATE_FILE).read_text())
            if "pid" in found:
                os.kill(int(found["pid"]), 0)  # raises if the process is gone
            return cls(
                endpoint=str(found["endpoint"]),
                stack=str(found.get("stack", "Oncely-local")),
                region=str(found.get("region", _REGION)),
            )
        except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
            raise CommandError(
                "No local stack is running. Start one with `oncely local` in the project.",
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

    `oncely demo --help` lists its options.
    """
    _run("demo", ctx)


def local(ctx: typer.Context) -> None:
    """Run the stack on this machine until Ctrl-C.

    In another terminal, use `oncely local redeploy`, `oncely local logs`, or
    `oncely local lose-response`, which drops a provider's next response.
    """
    _run("local", ctx)


def _run(command: str, ctx: typer.Context) -> None:
    # A separate process: it needs packages that the command does not.
    folder = find_project().folder
    python, environment = Path(sys.executable), dict(os.environ)
    if (folder / "infra" / "oncely_local").is_dir():  # a clone of Oncely runs its own code
        own = folder / ".venv" / "bin" / "python"
        python = own if own.exists() else python
        roots = (str(folder / name) for name in ("functions", "infra", "."))
        environment["PYTHONPATH"] = os.pathsep.join(roots)
    elif any(find_spec(name) is None for name in _PACKAGES):
        raise CommandError(
            f'`oncely {command}` needs more packages. Run `pip install "oncely[cdk,testing]"`.'
        )
    arguments = [str(python), "-m", "oncely_local", command, *ctx.args]
    with subprocess.Popen(arguments, cwd=folder, env=environment) as process:  # noqa: S603  # this package
        while process.poll() is None:
            # Ctrl-C reaches both. The stack then saves its data, and this waits for it.
            with contextlib.suppress(KeyboardInterrupt):
                process.wait()
    raise typer.Exit(process.returncode)
