"""The machine's own clock and randomness."""

import secrets
from datetime import UTC, datetime

from oncely.domain.text import truncate_to_milliseconds


class SystemClock:
    """The wall clock; a process that was frozen reads the true time when it thaws."""

    def now(self) -> datetime:
        """The time, in UTC, as a row keeps it."""
        return truncate_to_milliseconds(datetime.now(UTC))


def new_owner_token() -> str:
    """A fresh owner token: 128 random bits."""
    return secrets.token_urlsafe(16)


def random_jitter() -> float:
    """A number from [0, 1)."""
    return secrets.randbelow(1_000_000) / 1_000_000
