"""The result of one health check."""

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """How a checked part is."""

    OK = "ok"
    WARNING = "warning"  # works, but needs attention
    BROKEN = "broken"  # jobs are blocked, or alerts are not delivered


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a check found and how to fix it. `--json` prints these fields."""

    check: str
    status: CheckStatus
    message: str
    fix: str = ""


def passed(check: str, message: str) -> Finding:
    """Create an `ok` finding."""
    return Finding(check=check, status=CheckStatus.OK, message=message)


def warned(check: str, message: str, fix: str = "") -> Finding:
    """Create a `warning` finding."""
    return Finding(check=check, status=CheckStatus.WARNING, message=message, fix=fix)


def failed(check: str, message: str, fix: str) -> Finding:
    """Create a `broken` finding."""
    return Finding(check=check, status=CheckStatus.BROKEN, message=message, fix=fix)
