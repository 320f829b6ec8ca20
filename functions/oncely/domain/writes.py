"""The local writes that belong to an end: data, so that a store can put them in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True)
class Expect:
    """What the row must hold for the write to be taken."""

    name: str
    one_of: tuple[Json, ...]
    or_absent: bool = False
    or_up_to: str | None = None  # or any text that sorts at or before this one, such as a time


@dataclass(frozen=True, kw_only=True)
class LocalWrite:
    """A change of one business row, in the same transaction as the job's end."""

    table: str
    key: Mapping[str, str]
    set: Mapping[str, Json] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    expect: tuple[Expect, ...] = ()
    may_create: bool = False  # a row that is not there is made
    must_be_new: bool = False  # a row that is there refuses

    def __str__(self) -> str:
        return f"{self.table} {'/'.join(self.key.values())}"
