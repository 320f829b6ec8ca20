"""Says whether anything changed since the last deployment, by digests of its files."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from oncely_cdk.paths import FUNCTIONS, REPOSITORY

_INFRA: Final = REPOSITORY / "infra"
_LOCAL: Final = _INFRA / "oncely_local"  # runs the stack, and is no part of it
# The stack reads queues, tables, variables, times and statuses from these.
_DERIVED_FROM: Final = (
    *("jobs", "providers", "contract.py", "registry.py", "settings.py", "telemetry.py"),
    *("domain/lifecycle.py", "domain/profiles.py"),
)
_BUILD_ARTIFACTS: Final = frozenset({"__pycache__", ".DS_Store"})


def synthesis_inputs() -> Iterator[Path]:
    """All that a synthesis reads: the stack, the functions' code, and the pins of the layers."""
    yield from stack_sources()
    yield from function_sources()


def stack_sources() -> Iterator[Path]:
    """What can change more than a function's code: the stack, and what it is derived from."""
    yield from (path for path in _list_files(_INFRA) if not path.is_relative_to(_LOCAL))
    yield from (path for name in _DERIVED_FROM for path in _list_files(FUNCTIONS / "oncely" / name))
    yield from (REPOSITORY / "requirements").glob("layer-*.txt")
    yield from (REPOSITORY / name for name in ("cdk.json", "package-lock.json"))


def function_sources() -> Iterator[Path]:
    """The code of every function."""
    yield from _list_files(FUNCTIONS)


def source_digest(files: Iterable[Path], more: Mapping[str, str] | None = None) -> str:
    """The same for the same files with the same content, wherever the repository lies."""
    mark = hashlib.sha256(json.dumps(more or {}, sort_keys=True).encode())
    for path in sorted(set(files)):
        mark.update(f"\n{path.relative_to(REPOSITORY)}\n".encode())
        mark.update(hashlib.sha256(path.read_bytes()).digest())
    return mark.hexdigest()[:16]


def _list_files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*")):
        if (
            path.is_file()
            and not _BUILD_ARTIFACTS.intersection(path.parts)
            and path.suffix != ".pyc"
        ):
            yield path
