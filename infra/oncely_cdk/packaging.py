"""The files that functions ship, of the engine and of jobs, and their bytecode for Lambda."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Final, TypeAlias

from oncely.aws.code_stamp import STAMP_FILE
from oncely.contracts.job import AnyJob
from oncely_cdk.paths import PACKAGE

LAMBDA_PYTHON_VERSION: Final = "3.13"
CACHE_TAG: Final = "cpython-313"
MISSING_PYTHON_WARNING: Final = (
    f"Python {LAMBDA_PYTHON_VERSION} not found on the PATH, in pyenv or in PYTHON313. Functions "
    "ship without bytecode, so each cold start compiles its imports."
)
# Used on a developer's or an operator's machine only.
NOT_SHIPPED: Final = (
    *("cli", "testing", "providers/*/sandbox*", "providers/*/facts.py", "plugins/facts.py"),
    *("operate/erase.py", "schemas"),
)

# Where Lambda unpacks a function's code, and its layers.
CODE_PATH: Final = "/var/task"
LAYER_PATH: Final = "/opt"

# Paths on this machine, by their names in a function's folder.
ShippedFiles: TypeAlias = Mapping[str, Path]


class BytecodeError(Exception):
    """The code could not be compiled for Lambda."""


def engine_files() -> ShippedFiles:
    """List what functions run of the engine: all but the tools of developers and operators."""
    left_out = [folder for pattern in NOT_SHIPPED for folder in PACKAGE.glob(pattern)]
    return {
        f"python/{name}": path
        for name, path in _list_files(PACKAGE, PACKAGE.name)
        if not any(path.is_relative_to(folder) for folder in left_out)
    }


def job_packages(contracts: Iterable[type[AnyJob]]) -> tuple[str, ...]:
    """Name the top-level packages of the jobs, without those that the engine ships."""
    roots = {contract_type.__module__.partition(".")[0] for contract_type in contracts}
    return tuple(sorted(roots - {PACKAGE.name}))


def job_files(contracts: Iterable[type[AnyJob]]) -> ShippedFiles:
    """List the files of the jobs' packages."""
    roots = job_packages(contracts)
    return {name: path for root in roots for name, path in _list_package(root)}


def digest_files(files: ShippedFiles, *, for_lambda: bool) -> str:
    """Hash the sources. Equal sources give equal bytecode, wherever they are compiled.

    Only the bytecode for Lambda changes the hash: local stacks of any Python have the same.
    """
    mark = hashlib.sha256(CACHE_TAG.encode() if for_lambda else b"")
    for name, path in sorted(files.items()):
        mark.update(f"\n{name}\n".encode())
        mark.update(hashlib.sha256(path.read_bytes()).digest())
    return mark.hexdigest()


def collect_files(
    files: ShippedFiles, *, digest: str, compiler: Path | None, runtime_path: str
) -> Path:
    """Copy files into one folder, which is deleted at exit. An interpreter compiles them.

    A file has their digest. Without a job that is the only one, and Lambda needs one.
    """
    if (digest, compiler) not in _collected:
        folder = tempfile.TemporaryDirectory(prefix="oncely-code-")
        for name, path in files.items():
            copy = Path(folder.name) / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        (Path(folder.name) / STAMP_FILE).write_text(digest, encoding="utf-8")
        if compiler:
            _compile(Path(folder.name), compiler, runtime_path=runtime_path)
        _collected[digest, compiler] = folder
    return Path(_collected[digest, compiler].name)


# By digest and compiler: all functions of a stack share one folder.
_collected: Final[dict[tuple[str, Path | None], tempfile.TemporaryDirectory[str]]] = {}


def _list_package(root: str) -> Iterator[tuple[str, Path]]:
    """List the files of an imported top-level package, or the one file of a module."""
    module = sys.modules[root]
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    if not folders and module.__file__:
        yield f"{root}.py", Path(module.__file__)
    for folder in folders:
        yield from _list_files(folder, root)


def _list_files(folder: Path, root: str) -> Iterator[tuple[str, Path]]:
    for path in list_sources(folder):
        yield (PurePath(root) / path.relative_to(folder)).as_posix(), path


def list_sources(folder: Path) -> Iterator[Path]:
    """List the files of a folder, without what tools wrote into it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not _is_build_artifact(path.relative_to(folder)):
            yield path


def _is_build_artifact(path: Path) -> bool:
    return path.suffix == ".pyc" or any(
        part == "__pycache__" or part.startswith(".") for part in path.parts
    )


def compile_for_lambda(folder: Path, *, runtime_path: str) -> None:
    """Add bytecode to every source of a folder that Lambda mounts at `runtime_path`.

    Without an interpreter that can compile for Lambda, it adds nothing.
    """
    if (python := lambda_python()) is not None:
        _compile(folder, python, runtime_path=runtime_path)


def _compile(folder: Path, python: Path, *, runtime_path: str) -> None:
    """Add bytecode to every source. The sources stay for tracebacks.

    The bytecode is unchecked: zip archives do not keep the time stamps that a check needs.
    """
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
