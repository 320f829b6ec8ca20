"""Random mutants that may survive, each with the reason why no test needs to notice."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Justified:
    """A line of the product, as it is and as the mutant has it, both without indentation."""

    file: str
    line: str
    mutated: str
    reason: str


JUSTIFIED: Final[tuple[Justified, ...]] = ()
