"""The result of one health check."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


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

    @classmethod
    def passed(cls, check: str, message: str) -> Self:
        """Return one that is fine."""
        return cls(check=check, status=CheckStatus.OK, message=message)

    @classmethod
    def warned(cls, check: str, message: str, fix: str = "") -> Self:
        """Return one that works, but needs attention."""
        return cls(check=check, status=CheckStatus.WARNING, message=message, fix=fix)

    @classmethod
    def failed(cls, check: str, message: str, fix: str) -> Self:
        """Return one that is broken."""
        return cls(check=check, status=CheckStatus.BROKEN, message=message, fix=fix)
