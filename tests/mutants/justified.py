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


_FIND_DUE: Final = "functions/oncely/services/find_due.py"
_TUNED: Final = "A tuned bound on the reads of one sweep: one more row changes no outcome."

JUSTIFIED: Final = (
    Justified(_FIND_DUE, "LOOKS: Final = 200", "LOOKS: Final = 201", _TUNED),
    Justified(_FIND_DUE, "_AGES: Final = 20", "_AGES: Final = 21", _TUNED),
    Justified(
        _FIND_DUE,
        "if len(asked_for) <= LOOKS:",
        "if len(asked_for) < LOOKS:",
        "With exactly LOOKS items both ways return all of them; only their order differs.",
    ),
)
