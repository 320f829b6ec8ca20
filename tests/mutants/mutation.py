"""The curated mutations in curated/*.toml, and the random mutants that may survive."""

import tomllib
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from oncely_cdk.paths import REPOSITORY

_FOLDER: Final = Path(__file__).parent
_STRICT: Final = ConfigDict(extra="forbid")
_Entry = TypeVar("_Entry")


class StaleMutationError(Exception):
    """A mutation no longer matches the source or the tests."""


@dataclass(frozen=True, config=_STRICT)
class Mutation:
    """One named way to break a guard: `new` replaces `old`, and one of `tests` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    select: str = ""  # pytest's -k

    @property
    def pytest_arguments(self) -> tuple[str, ...]:
        return (*self.tests, "-k", self.select) if self.select else self.tests

    def apply(self, root: Path) -> str:
        missing = [path for path in (self.file, *self.tests) if not (root / path).is_file()]
        if missing or not self.tests:
            raise StaleMutationError(f"{self.name}: no such file: {', '.join(missing) or 'tests'}")
        source = (root / self.file).read_text()
        if source.count(self.old) != 1:
            raise StaleMutationError(
                f"{self.name}: `old` occurs {source.count(self.old)} times in {self.file}. "
                "It must occur exactly once: fix the quote in tests/mutants/curated/."
            )
        return source.replace(self.old, self.new)


@dataclass(frozen=True, config=_STRICT)
class JustifiedSurvivor:
    file: str
    line: str
    mutated: str
    reason: str


def _load(file: Path, entries: TypeAdapter[list[_Entry]]) -> list[_Entry]:
    try:
        (table,) = tomllib.loads(file.read_text()).values()
        return entries.validate_python(table)
    except ValueError as error:
        raise ValueError(f"{file.relative_to(REPOSITORY)}: {error}") from error


MUTATIONS: Final = tuple(
    mutation
    for file in sorted(_FOLDER.glob("curated/*.toml"))
    for mutation in _load(file, TypeAdapter(list[Mutation]))
)
JUSTIFIED_SURVIVORS: Final = _load(
    _FOLDER / "justified_survivors.toml", TypeAdapter(list[JustifiedSurvivor])
)
