"""Which files each function ships, and the same files with Lambda's bytecode beside them."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from infra import FUNCTIONS, SHARED
from infra.bytecode import CACHE_TAG, compile_for_lambda

_RUNTIME_PATH: Final = "/var/task"  # where Lambda unpacks a function's code
_HANDLER: Final = "handler.py"


def list_shipped_files(entry: str) -> list[Path]:
    """The shared package and the folder of the entry point, without what tools leave there."""
    if not (FUNCTIONS / entry / _HANDLER).is_file():
        raise FileNotFoundError(f"there is no functions/{entry}/{_HANDLER} to deploy")
    # What teams test their own contracts with is shipped to no function.
    testing = FUNCTIONS / SHARED / "testing"
    return [
        path
        for folder in (SHARED, entry)
        for path in sorted((FUNCTIONS / folder).rglob("*"))
        if path.is_file() and not path.is_relative_to(testing) and not _is_build_artifact(path)
    ]


def digest_files(files: Iterable[Path]) -> str:
    """Says what Lambda gets: equal sources give equal bytecode, wherever they are compiled."""
    mark = hashlib.sha256(CACHE_TAG.encode())
    for path in files:
        mark.update(f"\n{path.relative_to(FUNCTIONS)}\n".encode())
        mark.update(hashlib.sha256(path.read_bytes()).digest())
    return mark.hexdigest()


def compile_functions() -> Path:
    """A folder with the files of every function and their bytecode, which ends with the process."""
    entries = (path.parent.name for path in FUNCTIONS.glob(f"*/{_HANDLER}"))
    files = tuple(sorted({path for entry in entries for path in list_shipped_files(entry)}))
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
