"""The queue: a message that was received comes back unless it is acknowledged."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

# The queue's visibility is six times the function's timeout.
VISIBILITY: Final = timedelta(minutes=6)
MAX_RECEIVES: Final = 5


@dataclass(eq=False)
class Letter:
    """One message in the queue."""

    body: str
    visible_at: datetime
    receives: int = 0
    number: int = 0  # the message's id

    @property
    def is_dead(self) -> bool:
        """Whether its workers gave up on it."""
        return self.receives > MAX_RECEIVES

    @property
    def near_its_last(self) -> bool:
        """Whether another hand-back might end in the dead letters."""
        return self.receives >= MAX_RECEIVES - 1

    def receive(self, now: datetime) -> None:
        """Hide it for a while."""
        self.receives += 1
        self.visible_at = now + VISIBILITY


@dataclass
class Letters:
    """All that are in the queue, in the order they were sent."""

    held: list[Letter] = field(default_factory=list)
    sent: int = 0

    def send(self, body: str, *, at: datetime) -> None:
        """Put a message into the queue."""
        self.sent += 1
        self.held.append(Letter(body, at, number=self.sent))

    def first(self) -> Letter | None:
        """The one that is, or will be, visible first."""
        return min(self.held, key=lambda letter: letter.visible_at, default=None)

    def remove(self, letter: Letter) -> None:
        """Acknowledge it; it may be gone already."""
        if letter in self.held:
            self.held.remove(letter)
