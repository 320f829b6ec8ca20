"""Who did something: a part of the machine, or a person; nobody can take the machine's name."""

from typing import Final

from oncely.domain.keys import MAX_PART
from oncely.domain.text import one_line

# Stored in the evidence of rows, so it never changes; a part of the machine has no such mark.
_PERSON: Final = "person:"


def person(name: str) -> str:
    """A person, as the evidence of a job keeps them: also one who signs in as `worker`."""
    return _PERSON + one_line(name, MAX_PART)


def is_person(actor: str) -> bool:
    """Whether a person did it; rows of an older version do not tell."""
    return actor.startswith(_PERSON)


def in_words(actor: str) -> str:
    """Who it was, as people read it."""
    return f"{actor.removeprefix(_PERSON)} (person)" if is_person(actor) else actor
