"""The curated mutations in curated/*.toml, and the random mutants that may survive."""

import tomllib
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from oncely_cdk.paths import REPOSITORY

_FOLDER: Final = Path(__file__).parent
STRICT: Final = ConfigDict(extra="forbid")
_Entry = TypeVar("_Entry")


class StaleMutationError(Exception):
    """A mutation no longer matches the source or the tests."""


@dataclass(frozen=True, config=STRICT)
class CodeChange:
    """One named way to break a guard: `new` replaces `old`, which occurs once in `file`."""

    name: str
    file: str
    old: str
    new: str

    def apply(self, root: Path) -> str:
        if not (root / self.file).is_file():
            raise StaleMutationError(f"{self.name}: no such file: {self.file}")
        source = (root / self.file).read_text()
        if source.count(self.old) != 1:
            raise StaleMutationError(
                f"{self.name}: `old` occurs {source.count(self.old)} times in {self.file}. "
                "It must occur exactly once: fix the quote."
            )
        return source.replace(self.old, self.new)


@dataclass(frozen=True, config=STRICT)
class Mutation(CodeChange):
    """A change with which one of `tests` must fail."""

    tests: tuple[str, ...]
    select: str = ""  # pytest's -k

    @property
    def pytest_arguments(self) -> tuple[str, ...]:
        return (*self.tests, "-k", self.select) if self.select else self.tests

    def apply(self, root: Path) -> str:
        missing = [path for path in self.tests if not (root / path).is_file()]
        if missing or not self.tests:
            raise StaleMutationError(f"{self.name}: no such file: {', '.join(missing) or 'tests'}")
        return super().apply(root)


@dataclass(frozen=True, config=STRICT)
class JustifiedSurvivor:
    file: str
    line: str
    mutated: str
    reason: str


def load(file: Path, entries: TypeAdapter[list[_Entry]]) -> list[_Entry]:
    try:
        (table,) = tomllib.loads(file.read_text()).values()
        return entries.validate_python(table)
    except ValueError as error:
        raise ValueError(f"{file.relative_to(REPOSITORY)}: {error}") from error


MUTATIONS: Final = tuple(
    mutation
    for file in sorted(_FOLDER.glob("curated/*.toml"))
    for mutation in load(file, TypeAdapter(list[Mutation]))
)
JUSTIFIED_SURVIVORS: Final = load(
    _FOLDER / "justified_survivors.toml", TypeAdapter(list[JustifiedSurvivor])
)
