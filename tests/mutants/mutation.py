"""One named way to break a guard, and the tests that must notice."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """`old` stands exactly once in `file`, and `new` takes its place."""

    name: str
    file: str
    old: str
    new: str
    killed_by: tuple[str, ...]  # what pytest is given
