"""Access to the admin page: who may repair now, and how typed text is logged."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class UserDirectory(Protocol):
    """The users of the admin page, as they are now. A token shows them as they signed in."""

    def groups(self, user: str) -> frozenset[str]:
        """The groups of a user. Empty if the user is disabled or was deleted."""


@dataclass(frozen=True)
class TextDigester:
    """Digests typed text. Only with the key can it be recognized, or guessed."""

    read_key: Callable[[], str]

    def digest(self, text: str) -> str:
        # A lone surrogate can be typed into a URL.
        content = text.strip().encode("utf-8", "surrogatepass")
        return hmac.new(self.read_key().encode(), content, "sha256").hexdigest()
