"""Small fakes: a clock to move, and queues to inspect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count

from botocore.exceptions import EndpointConnectionError

from oncely.alerts.budget import Alert
from oncely.core.errors import UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.table_guard import TableFacts, TableGuard, TableIdentity, TableOpen, TableState
from oncely.operate.overview import QueuedMessages, Series
from oncely.plugins.events import EffectChange

START = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
T1 = TableIdentity(deployment="dev", table_id="T1", tag_key="the key of tags")
T2 = TableFacts(name="jobs", table_id="T2", has_stream=True, has_ttl=True, has_recovery=True)


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
    named: list[str | None] = field(default_factory=list)  # the jobs of what was rejected

    def redeliver_after(self, receipt: str, *, delay: timedelta) -> None:
        self.redelivered[receipt] = delay

    def reject(
        self, body: str, *, reason: str, message_id: str, job_key: str | None = None
    ) -> None:
        self.rejected.append((body, reason))
        self.named.append(job_key)


@dataclass
class FakeMessageSender:
    """A queue to inspect. It `refuses` the bodies at these positions, as a throttled SQS does."""

    sent: list[str] = field(default_factory=list)
    groups: list[str | None] = field(default_factory=list)
    fails_at: frozenset[int] = frozenset()

    def send(self, bodies: Sequence[str], *, groups: Sequence[str | None] = ()) -> list[bool]:
        self.groups += groups or [None] * len(bodies)
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
    published: list[JobRow] = field(default_factory=list)
    changes: list[tuple[JobKey, EffectChange]] = field(default_factory=list)
    fails: bool = False
    on_change: Callable[[], object] = list  # what happens right after a change was published

    def publish(self, job: JobRow) -> None:
        self.published.append(job)

    def publish_change(self, job: JobRow, change: EffectChange) -> None:
        if self.fails:
            raise UnavailableError("the event bus does not respond")
        self.changes.append((job.job_key, change))
        self.on_change()


class FakeTableGuard(TableGuard):
    def __init__(self, state: TableState = TableOpen(deployment=None)) -> None:  # noqa: B008  # never changes
        self.state = state

    def check(self) -> TableState:
        return self.state

    def _set_lookup(self, job_type: str, value: str, *, expected: str | None = None) -> None:
        del expected
        if isinstance(self.state, TableOpen):
            self.state = replace(self.state, lookups={**self.state.lookups, job_type: value})


@dataclass
class FakeIdentityTable:
    """A job table after a restore: its identity item has the id of the earlier table."""

    item: TableIdentity | None = T1
    table: TableFacts = T2
    writes: list[TableIdentity] = field(default_factory=list)
    has_rows: bool = False

    def is_empty(self) -> bool:
        return self.item is None and not self.has_rows

    def identity(self) -> TableIdentity | None:
        return self.item

    def facts(self) -> TableFacts:
        return self.table

    def with_protection(self, facts: TableFacts) -> TableFacts:
        return facts

    def write(self, identity: TableIdentity, *, replacing: TableIdentity | None) -> bool:
        if self.item != replacing:
            return False
        self.item = identity
        self.writes.append(identity)
        return True


class UnreachableS3:
    """The client of a bucket during an outage."""

    def get_paginator(self, _: str) -> object:
        raise EndpointConnectionError(endpoint_url="https://s3")


@dataclass
class MemoryMetrics:
    """Metrics by hour, and how many requests read them."""

    values: dict[Series, dict[datetime, float]] = field(default_factory=dict)
    reads: list[tuple[datetime, datetime]] = field(default_factory=list)

    def by_hour(
        self, *, since: datetime, until: datetime
    ) -> Mapping[Series, Mapping[datetime, float]]:
        self.reads.append((since, until))
        return self.values


@dataclass
class MemoryQueueDepths:
    found: list[QueuedMessages] = field(default_factory=list)

    def depths(self) -> list[QueuedMessages]:
        return self.found
