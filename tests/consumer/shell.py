"""Runs commands as a team would: without this repository on the path."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# The CDK's command line is an npm package, which a team installs as well.
CDK: Final = REPOSITORY / "node_modules" / ".bin" / "cdk"


def run(folder: Path, *command: str | Path, **variables: str) -> str:
    """Run a command. Exits with its output if it fails."""
    done = start(folder, *command, **variables)
    if done.returncode:
        words = " ".join(map(str, command[:4]))
        sys.exit(f"{words} … failed with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def start(
    folder: Path, *command: str | Path, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder, without this repository on the path."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**environment(), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def environment() -> dict[str, str]:
    """The variables of a terminal that has nothing of this repository."""
    kept = ("HOME", "LANG", "PYENV_ROOT", "TMPDIR")
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in kept or re.match("(?i)pip_|uv_|.*proxy|ssl_|requests_ca", name)
    }
    node = shutil.which("node")
    path = [str(Path(node).parent)] if node else []
    return {
        **passed,
        "PATH": os.pathsep.join([*path, "/usr/local/bin", "/usr/bin", "/bin"]),
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    }


def install_wheel(
    folder: Path, python: Path, wheel: Path, extras: Iterable[str], *more: str
) -> None:
    """Install a wheel in place of another, in the versions of constraints.txt."""
    uv = python.with_name("uv")
    wanted = (f"oncely[{','.join(extras)}] @ {wheel.as_uri()}", *more)
    install = (uv, "pip", "install", "--quiet", "--reinstall-package", "oncely")
    constraints = folder / "constraints.txt"
    run(folder, *install, "--python", python, "--constraint", constraints, *wanted)


def synthesize(project: Path, python: Path, app: str, folder: str) -> Path:
    """Run a CDK app. Returns the assembly."""
    run(project, python, app, CDK_OUTDIR=folder)
    return project / folder


def expect(text: str, wanted: str) -> None:
    if wanted not in text:
        sys.exit(f"expected {wanted!r} in:\n{text}")


@contextmanager
def step(name: str) -> Iterator[None]:
    """Print a step, and how long it took."""
    began = time.monotonic()
    sys.stdout.write(f"{name} … ")
    sys.stdout.flush()
    yield
    sys.stdout.write(f"{time.monotonic() - began:.0f} s\n")
