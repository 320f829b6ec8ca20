"""First setup: writes the identity of an empty job table when its stack is created."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from oncely.domain.table_identity import TableFacts, TableIdentity


class SetupResult(StrEnum):
    """The result of a first setup."""

    CREATED = "made"  # the table was empty, and has an identity now
    ALREADY_SET_UP = "there"  # it has an identity already; the guard judges it
    NOT_EMPTY = "not_empty"  # rows without an identity: only `oncely restore-proofs` may declare it


class InitializableTable(Protocol):
    """The job table as a first setup needs it."""

    def identity(self) -> TableIdentity | None: ...

    def facts(self) -> TableFacts: ...

    def is_empty(self) -> bool: ...

    def write(self, identity: TableIdentity, *, replacing: TableIdentity | None) -> bool:
        """Write the item if it is still the one that was read."""


@dataclass(frozen=True)
class TableInitializer:
    """Writes the identity item of an empty table. Any other table stays blocked."""

    table: InitializableTable
    new_identity: Callable[[], str]

    def run(self) -> SetupResult:
        if self.table.identity() is not None:
            return SetupResult.ALREADY_SET_UP
        if not self.table.is_empty():
            return SetupResult.NOT_EMPTY
        made = TableIdentity(deployment=self.new_identity(), table_id=self.table.facts().table_id)
        created = self.table.write(made, replacing=None)
        return SetupResult.CREATED if created else SetupResult.ALREADY_SET_UP
