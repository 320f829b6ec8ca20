"""The rate limit of a sandbox: a token bucket for each endpoint, as providers have."""

import re
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from oncely.testing.sandbox.http_messages import SandboxRequest

# A segment of a path with a digit is an id.
_ID: Final = re.compile(r"/[^/]*\d[^/]*(?=/|$)")


@dataclass
class EndpointRateLimit:
    """A limit with a burst of one second. None for no limit."""

    per_second: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)  # tokens, and when

    def admits(self, request: SandboxRequest) -> bool:
        """Return whether the endpoint takes one more request now."""
        if self.per_second is None:
            return True
        version, _, path = request.path[1:].partition("/")
        endpoint = f"{request.method} /{version}{_ID.sub('/{id}', f'/{path}')}"
        with self._lock:
            now = time.monotonic()
            tokens, at = self._buckets.get(endpoint, (self.per_second, now))
            tokens = min(tokens + (now - at) * self.per_second, self.per_second)
            admitted = tokens >= 1
            self._buckets[endpoint] = (tokens - admitted, now)
            return admitted
