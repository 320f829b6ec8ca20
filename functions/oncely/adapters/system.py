"""The machine's own clock and randomness."""

import secrets
import uuid
from datetime import UTC, datetime


class SystemClock:
    """The wall clock; a process that was frozen reads the true time when it thaws."""

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.now(UTC)


def new_token() -> str:
    """A fresh owner token."""
    return uuid.uuid4().hex


def spread() -> float:
    """A number from [0, 1)."""
    return secrets.randbelow(1_000_000) / 1_000_000
