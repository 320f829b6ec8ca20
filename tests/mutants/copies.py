"""Copies of the working tree, in which mutants are tried; the tree itself is never changed."""

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final

from oncely_cdk.paths import REPOSITORY

MAX_CONCURRENCY: Final = 2
COPIED: Final = (
    *("functions", "infra", "tests", "docs", "requirements"),
    *("README.md", "pyproject.toml", "cdk.json"),
)
# Installed once, and only read.
SHARED: Final = (".venv-engine", "node_modules", ".build")


@contextmanager
def repository_copies(copied: Collection[str] = COPIED) -> Iterator["SimpleQueue[Path]"]:
    """Create a copy for each thread. Each user returns it. What is not `copied` is linked."""
    copies: SimpleQueue[Path] = SimpleQueue()
    with TemporaryDirectory() as folder:
        for number in range(MAX_CONCURRENCY):
            copies.put(copy_repository(Path(folder, str(number)), copied))
        yield copies


def copy_repository(to: Path, copied: Collection[str] = COPIED) -> Path:
    to.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for name in copied:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=ignore)
        else:
            shutil.copy(source, to / name)
    for name in (*SHARED, *(one for one in COPIED if one not in copied)):
        if (REPOSITORY / name).exists():
            (to / name).symlink_to((REPOSITORY / name).resolve())
    return to


def mutant_environment(root: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{root / 'functions'}:{root / 'infra'}:{root}"}
