"""Access to the admin page: who may repair now, and how typed text is logged."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TextDigester:
    """Digests typed text. Only with the key can it be recognized, or guessed."""

    read_key: Callable[[], str]

    def digest(self, text: str) -> str:
        # A lone surrogate can be typed into a URL.
        content = text.strip().encode("utf-8", "surrogatepass")
        return hmac.new(self.read_key().encode(), content, "sha256").hexdigest()
