"""The system clock and randomness."""

import secrets
from datetime import UTC, datetime
from functools import partial
from typing import Final

from oncely.core.text import truncate_to_milliseconds


class SystemClock:
    """The wall clock, which is also correct after a freeze."""

    def now(self) -> datetime:
        return truncate_to_milliseconds(datetime.now(UTC))


new_owner_token: Final = partial(secrets.token_urlsafe, 16)  # 128 random bits
# 64 random bits are unique, and short enough for every idempotency key.
new_identity: Final = partial(secrets.token_hex, 8)
random_jitter: Final = secrets.SystemRandom().random  # a number from [0, 1)
