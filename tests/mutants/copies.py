"""Copies of the working tree, in which mutants are tried; the tree itself is never changed."""

import os
import shutil
from pathlib import Path
from typing import Final

from oncely_cdk.paths import REPOSITORY

COPIED: Final = (
    "functions",
    "infra",
    "tests",
    "docs",
    "requirements",
    "README.md",
    "pyproject.toml",
    "cdk.json",
)
# Installed once, and only read.
SHARED: Final = (".venv-engine", "node_modules", ".build")


def copy_repository(to: Path) -> Path:
    to.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=ignore)
        else:
            shutil.copy(source, to / name)
    for name in SHARED:
        if (REPOSITORY / name).exists():
            (to / name).symlink_to((REPOSITORY / name).resolve())
    return to


def mutant_environment(root: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{root / 'functions'}:{root / 'infra'}:{root}"}
