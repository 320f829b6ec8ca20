"""The local writes that belong to an end: data, so that a store can put them in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True)
class Precondition:
    """What the row must hold for the write to be taken."""

    name: str
    one_of: tuple[Json, ...]
    or_absent: bool = False
    or_at_most: str | None = None  # or any text that sorts at or before this one, such as a time

    def is_met_by(self, row: Mapping[str, object]) -> bool:
        """Whether a row holds it."""
        if self.name not in row:
            return self.or_absent
        value = row[self.name]
        return value in self.one_of or (
            self.or_at_most is not None and str(value) <= self.or_at_most
        )


@dataclass(frozen=True, kw_only=True)
class BusinessWrite:
    """A change of one business row, in the same transaction as the job's end."""

    table: str
    key: Mapping[str, str]
    set: Mapping[str, Json] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    may_create: bool = False  # a row that is not there is made
    must_be_new: bool = False  # a row that is there refuses

    def applies_to(self, row: Mapping[str, object] | None) -> bool:
        """Whether the row, as it was read, would take this write; None: there is no row."""
        if row is None:
            creates = self.may_create or self.must_be_new
            return creates and all(expect.or_absent for expect in self.preconditions)
        return not self.must_be_new and all(expect.is_met_by(row) for expect in self.preconditions)

    def __str__(self) -> str:
        return f"{self.table} {'/'.join(self.key.values())}"
