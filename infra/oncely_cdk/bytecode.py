"""Compiles what Lambda imports with Lambda's own Python, where this machine has one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

LAMBDA_PYTHON_VERSION: Final = "3.13"
CACHE_TAG: Final = "cpython-313"
MISSING_PYTHON_WARNING: Final = (
    f"No Python {LAMBDA_PYTHON_VERSION} on the PATH, in pyenv or in PYTHON313: functions ship "
    "without bytecode, so each cold start compiles what it imports."
)


class BytecodeError(Exception):
    """The code could not be compiled for Lambda."""


@cache
def lambda_python() -> Path | None:
    """Find an interpreter whose bytecode Lambda can load. Returns None if there is none."""
    return next((python for python in _candidates() if _is_lambda_python(python)), None)


def compile_for_lambda(folder: Path, *, runtime_path: str) -> bool:
    """Add bytecode to every source in a folder that Lambda finds at this path.

    Lambda trusts it unseen and needs no time stamps, which an archive does not keep. The sources
    stay for tracebacks. Returns False if there is no interpreter to compile with.
    """
    python = lambda_python()
    if python is None:
        return False
    done = subprocess.run(  # noqa: S603  # an interpreter of this machine, on our own files
        [
            *(python, "-W", "ignore", "-m", "compileall", "-q", "-f"),
            *("--invalidation-mode", "unchecked-hash", "-s", folder, "-p", runtime_path, folder),
        ],
        # Sets are written in the order of their hashes.
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BytecodeError(f"{python} cannot compile {folder}:\n{done.stdout}{done.stderr}")
    return True


def _candidates() -> Iterator[Path]:
    if given := os.environ.get("PYTHON313"):
        yield Path(given)
    if on_path := shutil.which(f"python{LAMBDA_PYTHON_VERSION}"):
        yield Path(on_path)
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(versions.glob(f"{LAMBDA_PYTHON_VERSION}.*/bin/python"))


def _is_lambda_python(python: Path) -> bool:
    """Whether it runs and is that version; a shim of pyenv may do neither."""
    try:
        done = subprocess.run(  # noqa: S603  # as above
            [python, "-c", "import sys; print(sys.implementation.cache_tag)"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return False
    return done.stdout.strip() == CACHE_TAG
