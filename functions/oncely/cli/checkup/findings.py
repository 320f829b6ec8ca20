"""One line of a check-up: what was looked at, how it is, and what to mend."""

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """How a part is."""

    OK = "ok"
    WARNING = "warning"  # it works; someone should look
    BROKEN = "broken"  # jobs wait, or somebody is not told


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found, and what to do about it."""

    check: str
    status: CheckStatus
    message: str
    fix: str = ""


def passed(check: str, message: str) -> Finding:
    """As it should be."""
    return Finding(check=check, status=CheckStatus.OK, message=message)


def warned(check: str, message: str, fix: str = "") -> Finding:
    """It works, and someone should look."""
    return Finding(check=check, status=CheckStatus.WARNING, message=message, fix=fix)


def failed(check: str, message: str, fix: str) -> Finding:
    """Jobs wait, or somebody is not told."""
    return Finding(check=check, status=CheckStatus.BROKEN, message=message, fix=fix)
