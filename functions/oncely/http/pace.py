"""A rate limiter for requests to a provider, shared by threads."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final


@dataclass(eq=False)
class RateLimiter:
    """A limiter that makes each request wait for its turn. A rate of None never waits."""

    per_second: float | None
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _next_turn: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> None:
        if self.per_second is None:
            return
        with self._lock:
            now = self.now()
            turn = max(now, self._next_turn)
            self._next_turn = turn + 1 / self.per_second
        if turn > now:
            self.sleep(turn - now)


UNLIMITED: Final = RateLimiter(None)
