"""Who wrote an evidence entry: a part of Oncely, or an operator."""

from typing import Final

from oncely.core.keys import MAX_ID_LENGTH
from oncely.core.text import single_line

# Stored in evidence, so it never changes. The prefix keeps an operator who signs in as `worker`
# apart from the worker.
_OPERATOR_PREFIX: Final = "operator:"


def operator_actor(name: str) -> str:
    """An operator's name as evidence stores it."""
    return _OPERATOR_PREFIX + single_line(name, MAX_ID_LENGTH)


def is_operator(actor: str) -> bool:
    """Whether an operator wrote the entry."""
    return actor.startswith(_OPERATOR_PREFIX)


def operator_name(actor: str | None) -> str:
    """An operator's name in a sentence. A restored row may not have it."""
    return actor.removeprefix(_OPERATOR_PREFIX) if actor else "an operator"


def display_name(actor: str) -> str:
    """The actor as the timeline shows it."""
    return f"{actor.removeprefix(_OPERATOR_PREFIX)} (operator)" if is_operator(actor) else actor
