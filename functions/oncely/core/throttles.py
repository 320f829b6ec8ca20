"""Counts throttled requests in any thread, for the metric that the handler's thread emits."""

import threading
from dataclasses import dataclass, field
from typing import Final


@dataclass
class ThrottleCount:
    """The throttled requests since they were last reported."""

    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self) -> None:
        """Count one request."""
        with self._lock:
            self.count += 1

    def take(self) -> int:
        """Return the count, and start again at 0."""
        with self._lock:
            count, self.count = self.count, 0
        return count


# Of this execution environment.
THROTTLED_REQUESTS: Final = ThrottleCount()
