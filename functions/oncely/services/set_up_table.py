"""First setup: gives an empty job table its identity, once, when its stack is made."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from oncely.domain.table_identity import Identity, TableFacts


class SetUp(StrEnum):
    """What came of a first setup."""

    MADE = "made"  # the table was empty, and has an identity now
    THERE = "there"  # it has an identity already; the guard judges it
    NOT_EMPTY = "not_empty"  # rows without an identity: only `oncely restore-proofs` may declare it


class EmptyTable(Protocol):
    """What a first setup needs of the job table."""

    def identity(self) -> Identity | None:
        """The identity item. Returns None if there is none."""

    def facts(self) -> TableFacts:
        """The table's id."""

    def is_empty(self) -> bool:
        """Whether the table holds no item at all."""

    def write(self, identity: Identity, *, instead_of: Identity | None) -> bool:
        """Write the item if it is still the one that was read."""


@dataclass(frozen=True)
class FirstSetup:
    """Writes the identity item of a new table; of any other table it leaves the guard closed."""

    table: EmptyTable
    new_identity: Callable[[], str]

    def run(self) -> SetUp:
        """Give the table an identity if it is empty."""
        if self.table.identity() is not None:
            return SetUp.THERE
        if not self.table.is_empty():
            return SetUp.NOT_EMPTY
        made = Identity(deployment=self.new_identity(), table_id=self.table.facts().table_id)
        return SetUp.MADE if self.table.write(made, instead_of=None) else SetUp.THERE
