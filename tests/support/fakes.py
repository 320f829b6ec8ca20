"""Small fakes of the outside: a clock one can move, and boxes one can look into."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from oncely.domain.jobs import Job
from oncely.ports import Alert

START = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)


@dataclass
class FakeClock:
    """Stands still until it is moved."""

    time: datetime = START

    def now(self) -> datetime:
        return self.time

    def move(self, **by: float) -> None:
        self.time += timedelta(**by)


@dataclass
class FakeAlerts:
    told: list[Alert] = field(default_factory=list)
    broken: bool = False

    def tell(self, alert: Alert) -> bool:
        if not self.broken:
            self.told.append(alert)
        return not self.broken


@dataclass
class FakeInbox:
    """Remembers what became of each message."""

    shown_again: dict[str, timedelta] = field(default_factory=dict)
    rejected: list[tuple[str, str]] = field(default_factory=list)

    def show_again(self, receipt: str, *, after: timedelta) -> None:
        self.shown_again[receipt] = after

    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        self.rejected.append((body, reason))


@dataclass
class FakeOutbox:
    """A queue to look into; `refuses` bodies at these places, as a throttled SQS does."""

    sent: list[str] = field(default_factory=list)
    refuses: frozenset[int] = frozenset()

    def send(self, bodies: Sequence[str]) -> list[bool]:
        taken = [index not in self.refuses for index in range(len(bodies))]
        self.sent += [body for body, ok in zip(bodies, taken, strict=True) if ok]
        return taken


class Tokens:
    """Owner tokens that a test can read."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def __call__(self) -> str:
        return f"owner-{next(self._numbers)}"


@dataclass
class FakeBus:
    published: list[Job] = field(default_factory=list)

    def publish(self, job: Job) -> None:
        self.published.append(job)
