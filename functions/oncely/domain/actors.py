"""Who did something: a part of the machine, or a person; nobody can take the machine's name."""

from typing import Final

from oncely.domain.keys import MAX_ID_LENGTH
from oncely.domain.text import single_line

# Stored in the evidence of rows, so it never changes; a part of the machine has no such mark.
_OPERATOR_PREFIX: Final = "person:"


def operator_actor(name: str) -> str:
    """A person, as the evidence of a job keeps them: also one who signs in as `worker`."""
    return _OPERATOR_PREFIX + single_line(name, MAX_ID_LENGTH)


def is_operator(actor: str) -> bool:
    """Whether a person did it; rows of an older version do not tell."""
    return actor.startswith(_OPERATOR_PREFIX)


def display_name(actor: str) -> str:
    """Who it was, as people read it."""
    return f"{actor.removeprefix(_OPERATOR_PREFIX)} (person)" if is_operator(actor) else actor
