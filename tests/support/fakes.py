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
    time: datetime = START

    def now(self) -> datetime:
        return self.time

    def advance(self, **by: float) -> None:
        self.time += timedelta(**by)


@dataclass
class FakeNotifier:
    sent: list[Alert] = field(default_factory=list)
    fails: bool = False

    def notify(self, alert: Alert) -> bool:
        if not self.fails:
            self.sent.append(alert)
        return not self.fails


@dataclass
class FakeMessageSource:
    redelivered: dict[str, timedelta] = field(default_factory=dict)
    rejected: list[tuple[str, str]] = field(default_factory=list)

    def redeliver_after(self, receipt: str, *, delay: timedelta) -> None:
        self.redelivered[receipt] = delay

    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        self.rejected.append((body, reason))


@dataclass
class FakeMessageSender:
    """A queue to look into; `refuses` bodies at these places, as a throttled SQS does."""

    sent: list[str] = field(default_factory=list)
    fails_at: frozenset[int] = frozenset()

    def send(self, bodies: Sequence[str]) -> list[bool]:
        taken = [index not in self.fails_at for index in range(len(bodies))]
        self.sent += [body for body, ok in zip(bodies, taken, strict=True) if ok]
        return taken


class SequentialTokens:
    def __init__(self) -> None:
        self._numbers = count(1)

    def __call__(self) -> str:
        return f"owner-{next(self._numbers)}"


@dataclass
class FakeBus:
    published: list[Job] = field(default_factory=list)

    def publish(self, job: Job) -> None:
        self.published.append(job)
