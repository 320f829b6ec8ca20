"""Idempotency keys as Stripe keeps them: the first answer under a key is every answer."""

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from infra.local.sandbox.messages import Answer, Clock

# Stripe removes keys once they are at least this old; afterwards the key starts anew.
WINDOW: Final = timedelta(hours=24)


class KeyReusedError(Exception):
    """The key was first used for another request."""


class KeyInUseError(Exception):
    """The first request under the key is still executing."""


@dataclass
class _Entry:
    fingerprint: object
    at: datetime
    answer: Answer | None = None  # None while the first request executes


class IdempotencyKeys:
    """The answers kept, by key."""

    def __init__(self, clock: Clock, *, window: timedelta = WINDOW) -> None:
        self._clock = clock
        self._window = window
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def begin(self, key: str, fingerprint: object) -> Answer | None:
        """Give the stored answer, or claim the key for the caller to execute."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or self._is_over(entry):
                self._entries[key] = _Entry(fingerprint, self._clock())
                return None
            if entry.fingerprint != fingerprint:
                raise KeyReusedError
            if entry.answer is None:
                raise KeyInUseError
            return entry.answer

    def finish(self, key: str, answer: Answer) -> None:
        """Keep the answer that every later request under the key gets."""
        with self._lock:
            self._entries[key].answer = answer

    def forget(self, key: str) -> None:
        """Let the key go: nothing was executed under it."""
        with self._lock:
            self._entries.pop(key, None)

    def _is_over(self, entry: _Entry) -> bool:
        return entry.answer is not None and self._clock() - entry.at >= self._window
