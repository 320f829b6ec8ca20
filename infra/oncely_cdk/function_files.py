"""The files that every function ships, and the same files with Lambda's bytecode beside them."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from oncely_cdk.bytecode import CACHE_TAG, compile_for_lambda
from oncely_cdk.paths import FUNCTIONS, PACKAGE

_RUNTIME_PATH: Final = "/var/task"  # where Lambda unpacks a function's code
# What runs on a developer's machine only is shipped to no function.
NOT_SHIPPED: Final = ("cli", "testing", "providers/*/sandbox")


def list_shipped_files() -> list[Path]:
    """The package, without what tools leave in it and what no function runs."""
    left_out = [folder for pattern in NOT_SHIPPED for folder in PACKAGE.glob(pattern)]
    return [
        path
        for path in sorted(PACKAGE.rglob("*"))
        if path.is_file()
        and not any(path.is_relative_to(folder) for folder in left_out)
        and not _is_build_artifact(path)
    ]


def digest_files(files: Iterable[Path]) -> str:
    """Says what Lambda gets: equal sources give equal bytecode, wherever they are compiled."""
    mark = hashlib.sha256(CACHE_TAG.encode())
    for path in files:
        mark.update(f"\n{path.relative_to(FUNCTIONS)}\n".encode())
        mark.update(hashlib.sha256(path.read_bytes()).digest())
    return mark.hexdigest()


def compile_functions() -> Path:
    """A folder with the shipped files and their bytecode, which ends with the process."""
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


def _is_build_artifact(path: Path) -> bool:
    inside = path.relative_to(FUNCTIONS).parts
    return path.suffix == ".pyc" or any(
        part == "__pycache__" or part.startswith(".") for part in inside
    )
