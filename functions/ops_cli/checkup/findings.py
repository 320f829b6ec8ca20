"""One line of a check-up: what was looked at, how it is, and what to mend."""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """How a part is."""

    OK = "ok"
    WARNING = "warning"  # it works; someone should look
    BROKEN = "broken"  # jobs wait, or somebody is not told


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found, and what to do about it."""

    about: str
    health: Health
    says: str
    mend: str = ""


def ok(about: str, says: str) -> Finding:
    """As it should be."""
    return Finding(about=about, health=Health.OK, says=says)


def warning(about: str, says: str, mend: str = "") -> Finding:
    """It works, and someone should look."""
    return Finding(about=about, health=Health.WARNING, says=says, mend=mend)


def broken(about: str, says: str, mend: str) -> Finding:
    """Jobs wait, or somebody is not told."""
    return Finding(about=about, health=Health.BROKEN, says=says, mend=mend)
