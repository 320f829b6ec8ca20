"""The system clock and randomness."""

import secrets
from datetime import UTC, datetime

from oncely.domain.text import truncate_to_milliseconds


class SystemClock:
    """The wall clock, which is right after a freeze as well."""

    def now(self) -> datetime:
        return truncate_to_milliseconds(datetime.now(UTC))


def new_owner_token() -> str:
    """A new owner token: 128 random bits."""
    return secrets.token_urlsafe(16)


def random_jitter() -> float:
    """A number from [0, 1)."""
    return secrets.randbelow(1_000_000) / 1_000_000
