"""Idempotency keys as Stripe implements them: a key replays its first response."""

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from oncely.providers.stripe.sandbox.errors import StripeApiError, own_error
from oncely.testing.sandbox.http_messages import NowFunction, SandboxResponse

# Stripe removes keys after this time, and a request executes again.
KEY_WINDOW: Final = timedelta(hours=24)


@dataclass
class _Entry:
    fingerprint: object
    at: datetime
    response: SandboxResponse | None = None  # None while the first request executes


class IdempotencyKeys:
    """The stored responses, by key."""

    def __init__(self, clock: NowFunction, *, window: timedelta = KEY_WINDOW) -> None:
        self._clock, self._window = clock, window
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def begin(self, key: str, fingerprint: object) -> SandboxResponse | None:
        """Return the stored response, or None if the caller should execute the request."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or self._is_expired(entry):
                self._entries[key] = _Entry(fingerprint, self._clock())
                return None
            if entry.fingerprint != fingerprint:
                message = (
                    "Keys for idempotent requests can only be used with the same parameters they "
                    f"were first used with. Try using a key other than '{key}'."
                )
                raise StripeApiError(message, type_="idempotency_error")
            if entry.response is None:  # the first request is still executing
                raise own_error(409)
            return entry.response

    def finish(self, key: str, response: SandboxResponse) -> None:
        with self._lock:
            self._entries[key].response = response

    def forget(self, key: str) -> None:
        """Release the key, because nothing was executed under it."""
        with self._lock:
            self._entries.pop(key, None)

    def _is_expired(self, entry: _Entry) -> bool:
        return entry.response is not None and self._clock() - entry.at >= self._window
