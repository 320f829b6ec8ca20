"""The engine's ports, as small Protocols. Adapters do not inherit from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Protocol, TypeAlias, TypeVar

from oncely.domain.claims import Claim
from oncely.domain.due import DueAction
from oncely.domain.effect_outcomes import BusinessWrite, Json
from oncely.domain.gaps import BackfillProgress, HistoryGap
from oncely.domain.history import HistoryLine
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.provider import AnyProvider, Provider

T = TypeVar("T")
JobResult: TypeAlias = Mapping[str, Json]


class Clock(Protocol):
    """The current time, in UTC."""

    def now(self) -> datetime: ...


@dataclass(frozen=True)
class Claimed:
    """A successful claim: this worker is the owner."""

    job: Job


@dataclass(frozen=True)
class ClaimFailed:
    """A claim that lost to another row, which the same call returned."""

    row: Job


@dataclass(frozen=True)
class PrerequisiteNotMet:
    """A claim whose prerequisite job has not failed."""

    other: Job | None


@dataclass(frozen=True)
class Swapped:
    """A row that was written."""

    job: Job


@dataclass(frozen=True)
class VersionConflict:
    """A row that changed since it was read."""

    row: Job | None  # None if the row was removed


@dataclass(frozen=True)
class BusinessWriteConflict:
    """A business row that failed its precondition. Nothing was written, not even the job row."""

    reason: str


@dataclass(frozen=True)
class Created:
    """A new row."""

    job: Job


@dataclass(frozen=True)
class AlreadyExists:
    """A row that existed before."""

    row: Job


ClaimResult: TypeAlias = Claimed | ClaimFailed | PrerequisiteNotMet
SwapResult: TypeAlias = Swapped | VersionConflict | BusinessWriteConflict
CreateResult: TypeAlias = Created | AlreadyExists


class JobStore(Protocol):
    """The job rows. Every write states what it expects to find; losing a race is a value."""

    def get(self, key: JobKey) -> Job | None:
        """Read a row consistently. Returns None if there is none."""

    def create(self, job: Job) -> CreateResult:
        """Write a new row if none exists."""

    def claim(self, claim: Claim) -> ClaimResult:
        """Claim a row that is absent or ready, in one write."""

    def compare_and_swap(
        self, before: Job, after: Job, *, business_writes: Sequence[BusinessWrite] = ()
    ) -> SwapResult:
        """Replace `before` with `after` if it is unchanged, in one transaction with the writes."""


@dataclass(frozen=True, kw_only=True)
class TableOpen:
    """A job table that holds every proof of this deployment."""

    deployment: str | None  # its identity, for idempotency keys
    replays_until: datetime | None = None  # a job created before then looks up before it executes

    def has_all_rows(self, now: datetime) -> bool:
        """Return whether a job without a row has never run. A restore may have lost rows."""
        return self.replays_until is None or now >= self.replays_until


@dataclass(frozen=True)
class TableBlocked:
    """A job table that may lack proofs, so Oncely claims and writes nothing."""

    reason: str


TableState: TypeAlias = TableOpen | TableBlocked


class TableGuard(Protocol):
    """A guard that blocks a job table that was restored, copied, emptied or left unprotected."""

    def check(self) -> TableState:
        """Return whether jobs may be claimed now. Never raises, and caches its reads."""


@dataclass(frozen=True, kw_only=True)
class DueEntry:
    """A due row as the index shows it. The prefix of its key is the job type."""

    job_key: JobKey
    due_at: datetime


class DueIndex(Protocol):
    """The index of due rows. Its cost grows with the unresolved jobs, not with the table."""

    @property
    def shards(self) -> int:
        """Number of partitions of each action, numbered from 0."""

    def due(
        self, action: DueAction, shard: int, *, since: datetime | None, until: datetime
    ) -> Iterator[DueEntry]:
        """Yield the rows of one partition that became due in this period, the oldest first."""


class SweepLeases(Protocol):
    """Leases that keep two sweeps from working on the same shard."""

    def acquire(self, shard: int, *, holder: str, now: datetime, until: datetime) -> bool:
        """Acquire or renew the lease of a shard. Returns False if another sweep holds it."""

    def release(self, shard: int, *, holder: str) -> None:
        """Release the lease, if this holder still has it."""


class Sweeps(Protocol):
    """The starter of sweeps."""

    def start(self, sweep: Mapping[str, Json]) -> None:
        """Start the state machine with this input."""


@dataclass(frozen=True)
class JobListEntry:
    """A job in a list, before its row is read, with the time that orders the list."""

    job_key: JobKey
    at: datetime

    @property
    def job_type(self) -> str:
        """The prefix of the key."""
        return self.job_key.partition(":")[0]


@dataclass(frozen=True)
class UnreadableRow:
    """A row that this deployment cannot parse: edited by hand, or written by a newer version."""

    job_key: JobKey
    reason: str


class JobIndex(Protocol):
    """The search index of jobs. Its cost grows with the results, not with the table."""

    def by_subject(self, subject: str, *, limit: int) -> list[JobKey]:
        """Find the jobs of a business id, the newest first."""

    def by_customer(self, customer_id: str, *, limit: int) -> list[JobKey]:
        """Find the jobs of a customer, the newest first."""

    def by_reference(self, ref: str, *, limit: int) -> list[JobKey]:
        """Find the jobs with a provider reference."""

    def by_status(
        self,
        statuses: Sequence[Status],
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        oldest_first: bool = False,
    ) -> Iterator[JobListEntry]:
        """Yield the jobs in these statuses lazily, by the time that each entered its status."""

    def count(self, statuses: Sequence[Status], *, since: datetime | None, limit: int) -> int:
        """Count the jobs that entered these statuses since then, up to `limit`."""

    def get_many(self, keys: Sequence[JobKey]) -> "dict[JobKey, Job | UnreadableRow]":
        """Read these rows consistently. Missing rows are left out."""


class HistoryStore(Protocol):
    """The writer of the history: objects of lines, by day and job type."""

    def put(self, day: date, job_type: str, name: str, lines: Sequence[HistoryLine]) -> None:
        """Write one object, or replace the one with this name."""

    def record_gap(self, gap: HistoryGap) -> None:
        """Record that a part of the history is missing, until a backfill closes it."""

    def close_gap(self, gap: HistoryGap, *, at: datetime) -> None:
        """Record that a backfill has covered a gap."""

    def save_backfill(self, progress: BackfillProgress) -> None:
        """Save the progress of a backfill."""


class HistoryReader(Protocol):
    """The reader of the history. It returns duplicate lines once."""

    def newest(self) -> Mapping[str, HistoryLine]:
        """Return the newest line of each job in the history, by job key."""

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None = None, limit: int
    ) -> list[HistoryLine]:
        """Return the jobs that ended after `since` and by `until`, the latest first."""

    def open_gaps(self) -> list[HistoryGap]:
        """Return the gaps that no backfill has closed, the oldest first."""

    def backfill_progress(self) -> BackfillProgress | None:
        """Return the progress of the last backfill. Returns None if there was none."""


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """A page of a scan of the job table."""

    jobs: tuple[Job, ...]
    unreadable: tuple[tuple[str, int | None], ...]  # keys and versions
    after: str | None  # continues the scan; None on the last page


class RowScan(Protocol):
    """A scan of the whole job table. Its cost grows with the table."""

    def pages(self, *, after: str | None = None) -> Iterator[RowPage]:
        """Read every row consistently, page by page, starting behind the key `after`."""


class FinishedJobs(Protocol):
    """The list of finished jobs, from the history: the table has no index of them."""

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None, limit: int
    ) -> Sequence[JobListEntry]:
        """Return the jobs that ended in this period, bounds included, the latest first.

        Failed jobs may be among them: check the status in the row.
        """


class EventBus(Protocol):
    """The event bus for other systems."""

    def publish(self, job: Job) -> None:
        """Publish that a job has ended. Subscribers may receive it more than once."""


@dataclass(frozen=True, kw_only=True)
class UniqueWindow:
    """A period in which only one job of this name may be enqueued, until that job starts."""

    name: str
    now: datetime
    until: datetime


@dataclass(frozen=True)
class WindowTaken:
    """A window that another job holds."""

    holder: JobKey


class UniqueWindows(Protocol):
    """The store of unique windows and their holders."""

    def create(
        self, job: Job, window: UniqueWindow, *, replacing: JobKey | None = None
    ) -> CreateResult | WindowTaken:
        """Write a new row and its window, if the window is free, expired, or `replacing`'s."""


class BusinessTable(Protocol):
    """A business table that a contract reads."""

    def get(self, key: Mapping[str, str]) -> Mapping[str, object] | None:
        """Read a row consistently. Returns None if there is none."""

    def query_index(
        self, index: str, *, partitions: tuple[str, Sequence[str]], max_sort_key: tuple[str, str]
    ) -> Iterator[Mapping[str, object]]:
        """Query a sparse index for rows of these partitions, up to this sort key."""

    def update(self, write: BusinessWrite) -> bool:
        """Write a row outside a job's transaction. Returns False if a precondition fails."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A message to the operator: what happened, to which job, and what to do next."""

    subject: str
    text: str
    job_key: JobKey | None = None


class Notifier(Protocol):
    """The channel to the operator."""

    def notify(self, alert: Alert) -> bool:
        """Send an alert. Returns False if it cannot be delivered now."""


class MessageSource(Protocol):
    """The queue that a worker receives from."""

    def redeliver_after(self, receipt: str, *, delay: timedelta) -> None:
        """Return a received message to the queue with this delay."""


class RejectQueue(Protocol):
    """The queue of messages that can never be processed."""

    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        """Send a message with the reason."""


class MessageSender(Protocol):
    """The queue that a producer sends to."""

    def send(self, bodies: Sequence[str]) -> list[bool]:
        """Send each body. Returns for each whether the queue accepted it."""


class Dependencies(Protocol):
    """What a contract may use. Each is created on first use."""

    def table(self, name: str) -> BusinessTable:
        """Return a business table by its short name, such as `orders`."""

    def job_store(self) -> JobStore:
        """Return the job table, to read other jobs."""

    def secret(self, name: str) -> str:
        """Return a secret by its short name, such as `acme`."""

    def message_sender(self, queue: str) -> MessageSender:
        """Return the sender of a queue by its short name, such as `sync`."""

    def provider(self, plugin: Provider[T, Any]) -> T:
        """Return the client of a provider that the contract's resources name."""

    def is_configured(self, plugin: AnyProvider) -> bool:
        """Return whether a provider's optional settings are present, such as a sender address."""
