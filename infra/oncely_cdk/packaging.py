"""The files that every function ships, and their bytecode for Lambda's Python."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from oncely_cdk.paths import FUNCTIONS, PACKAGE

LAMBDA_PYTHON_VERSION: Final = "3.13"
CACHE_TAG: Final = "cpython-313"
MISSING_PYTHON_WARNING: Final = (
    f"Python {LAMBDA_PYTHON_VERSION} not found on the PATH, in pyenv or in PYTHON313. Functions "
    "ship without bytecode, so each cold start compiles its imports."
)
# Used on a developer's machine only.
NOT_SHIPPED: Final = (
    *("cli", "testing"),
    *("providers/*/sandbox", "providers/*/fake.py", "providers/sandbox.py"),
)

_RUNTIME_PATH: Final = "/var/task"  # where Lambda unpacks a function's code


class BytecodeError(Exception):
    """The code could not be compiled for Lambda."""


def list_shipped_files() -> list[Path]:
    """List the package's files, without build artifacts and what no function runs."""
    left_out = [folder for pattern in NOT_SHIPPED for folder in PACKAGE.glob(pattern)]
    return [
        path
        for path in sorted(PACKAGE.rglob("*"))
        if path.is_file()
        and not any(path.is_relative_to(folder) for folder in left_out)
        and not _is_build_artifact(path)
    ]


def digest_files(files: Iterable[Path]) -> str:
    """Hash the sources. Equal sources give equal bytecode, wherever they are compiled."""
    mark = hashlib.sha256(CACHE_TAG.encode())
    for path in files:
        mark.update(f"\n{path.relative_to(FUNCTIONS)}\n".encode())
        mark.update(hashlib.sha256(path.read_bytes()).digest())
    return mark.hexdigest()


def compile_functions() -> Path:
    """Copy the shipped files and compile them, in a folder that is deleted at exit."""
    files = tuple(list_shipped_files())
    return Path(_compile_functions(FUNCTIONS, files, digest_files(files)).name)


@cache
def _compile_functions(
    functions: Path, files: tuple[Path, ...], _digest: str
) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="oncely-code-")
    for path in files:
        copy = Path(folder.name) / path.relative_to(functions)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    compile_for_lambda(Path(folder.name), runtime_path=_RUNTIME_PATH)
    return folder


def compile_for_lambda(folder: Path, *, runtime_path: str) -> bool:
    """Add bytecode to every source of a folder that Lambda mounts at `runtime_path`.

    The bytecode is unchecked: zip archives do not keep the time stamps that a check needs. The
    sources stay for tracebacks. Returns False if no interpreter can compile for Lambda.
    """
    python = lambda_python()
    if python is None:
        return False
    done = subprocess.run(  # noqa: S603  # an interpreter of this machine, on our own files
        [
            *(python, "-W", "ignore", "-m", "compileall", "-q", "-f"),
            *("--invalidation-mode", "unchecked-hash", "-s", folder, "-p", runtime_path, folder),
        ],
        # Sets are marshaled in hash order.
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BytecodeError(f"{python} cannot compile {folder}:\n{done.stdout}{done.stderr}")
    return True


@cache
def lambda_python() -> Path | None:
    """Find an interpreter whose bytecode Lambda can load. Returns None if there is none."""
    return next((python for python in _candidates() if _is_lambda_python(python)), None)


def _candidates() -> Iterator[Path]:
    if given := os.environ.get("PYTHON313"):
        yield Path(given)
    if on_path := shutil.which(f"python{LAMBDA_PYTHON_VERSION}"):
        yield Path(on_path)
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(versions.glob(f"{LAMBDA_PYTHON_VERSION}.*/bin/python"))


def _is_lambda_python(python: Path) -> bool:
    # Run it: a pyenv shim may not start, or may start another version.
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


def _is_build_artifact(path: Path) -> bool:
    inside = path.relative_to(FUNCTIONS).parts
    return path.suffix == ".pyc" or any(
        part == "__pycache__" or part.startswith(".") for part in inside
    )
