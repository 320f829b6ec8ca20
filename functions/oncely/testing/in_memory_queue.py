"""The queue: a message that was received comes back unless it is acknowledged."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

# The queue's visibility is six times the function's timeout.
VISIBILITY_TIMEOUT: Final = timedelta(minutes=6)
MAX_RECEIVE_COUNT: Final = 5


@dataclass(eq=False)
class QueuedMessage:
    """One message in the queue."""

    body: str
    visible_at: datetime
    receive_count: int = 0
    number: int = 0  # the message's id

    @property
    def is_dead_letter(self) -> bool:
        """Whether its workers gave up on it."""
        return self.receive_count > MAX_RECEIVE_COUNT

    @property
    def near_receive_limit(self) -> bool:
        """Whether another hand-back might end in the dead letters."""
        return self.receive_count >= MAX_RECEIVE_COUNT - 1

    def receive(self, now: datetime) -> None:
        """Hide it for a while."""
        self.receive_count += 1
        self.visible_at = now + VISIBILITY_TIMEOUT


@dataclass
class InMemoryQueue:
    """All that are in the queue, in the order they were sent."""

    messages: list[QueuedMessage] = field(default_factory=list)
    sent_count: int = 0

    def send(self, body: str, *, at: datetime) -> None:
        """Put a message into the queue."""
        self.sent_count += 1
        self.messages.append(QueuedMessage(body, at, number=self.sent_count))

    def first(self) -> QueuedMessage | None:
        """The one that is, or will be, visible first."""
        return min(self.messages, key=lambda letter: letter.visible_at, default=None)

    def remove(self, message: QueuedMessage) -> None:
        """Acknowledge it; it may be gone already."""
        if message in self.messages:
            self.messages.remove(message)
