"""A queue in memory: a received message is redelivered unless it is acknowledged."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

# The queue's visibility is six times the function's timeout.
VISIBILITY_TIMEOUT: Final = timedelta(minutes=6)
# Few, so that schedules reach the dead letters.
MAX_RECEIVE_COUNT: Final = 5


@dataclass(eq=False)
class QueuedMessage:
    """A message in the queue."""

    body: str
    visible_at: datetime
    receive_count: int = 0
    number: int = 0  # the message's id
    max_receive_count: int = MAX_RECEIVE_COUNT

    @property
    def is_dead_letter(self) -> bool:
        """Whether the message is past its receive limit."""
        return self.receive_count > self.max_receive_count

    @property
    def near_receive_limit(self) -> bool:
        """Whether another redelivery might make it a dead letter."""
        return self.receive_count >= self.max_receive_count - 1

    def receive(self, now: datetime) -> None:
        """Count a delivery, and hide the message for the visibility timeout."""
        self.receive_count += 1
        self.visible_at = now + VISIBILITY_TIMEOUT


@dataclass
class InMemoryQueue:
    """The messages in the queue, in the order they were sent."""

    messages: list[QueuedMessage] = field(default_factory=list)
    sent_count: int = 0
    max_receive_count: int = MAX_RECEIVE_COUNT

    def send(self, body: str, *, at: datetime) -> None:
        """Add a message."""
        self.sent_count += 1
        self.messages.append(
            QueuedMessage(
                body, at, number=self.sent_count, max_receive_count=self.max_receive_count
            )
        )

    def first(self) -> QueuedMessage | None:
        """Return the message that is, or will be, visible first. Returns None if it is empty."""
        return min(self.messages, key=lambda message: message.visible_at, default=None)

    def remove(self, message: QueuedMessage) -> None:
        """Remove a message, if it is still in the queue."""
        if message in self.messages:
            self.messages.remove(message)
