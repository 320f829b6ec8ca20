"""What the core needs from outside, as Protocols of few verbs; adapters do not inherit them."""

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
    """Tells the time, in UTC."""

    def now(self) -> datetime: ...


@dataclass(frozen=True)
class Claimed:
    """The claim was taken: this worker is the owner."""

    job: Job


@dataclass(frozen=True)
class ClaimFailed:
    """Someone else's row stands; it came back in the same call."""

    row: Job


@dataclass(frozen=True)
class PrerequisiteNotMet:
    """The other job that must have failed has not."""

    other: Job | None


@dataclass(frozen=True)
class Swapped:
    """The row now is what we wrote."""

    job: Job


@dataclass(frozen=True)
class VersionConflict:
    """The row is not the one we saw; None: there is no row any more."""

    row: Job | None


@dataclass(frozen=True)
class BusinessWriteConflict:
    """The job row would have taken it, a business row did not; nothing was written."""

    reason: str


@dataclass(frozen=True)
class Created:
    """The row is new."""

    job: Job


@dataclass(frozen=True)
class AlreadyExists:
    """There was a row already."""

    row: Job


ClaimResult: TypeAlias = Claimed | ClaimFailed | PrerequisiteNotMet
SwapResult: TypeAlias = Swapped | VersionConflict | BusinessWriteConflict
CreateResult: TypeAlias = Created | AlreadyExists


class JobStore(Protocol):
    """Keeps job rows. Every write says what it expects to find; losing a race is a value."""

    def get(self, key: JobKey) -> Job | None:
        """Read a row, consistently."""

    def create(self, job: Job) -> CreateResult:
        """Write a new row, unless there is one."""

    def claim(self, claim: Claim) -> ClaimResult:
        """Take a row that is absent or ready, in one write."""

    def compare_and_swap(
        self, before: Job, after: Job, *, business_writes: Sequence[BusinessWrite] = ()
    ) -> SwapResult:
        """Replace `before` unless someone got there first; local writes all go along or none."""


@dataclass(frozen=True, kw_only=True)
class TableOpen:
    """The job table holds the proofs of this deployment."""

    deployment: str | None  # its identity, for provider keys
    replays_until: datetime | None = None  # a job made before then asks before it acts

    def has_all_rows(self, now: datetime) -> bool:
        """Whether a job without a row has never run: a restore may have lost its row."""
        return self.replays_until is None or now >= self.replays_until


@dataclass(frozen=True)
class TableBlocked:
    """Nothing may be claimed or written: the table may not hold the proofs."""

    reason: str


TableState: TypeAlias = TableOpen | TableBlocked


class TableGuard(Protocol):
    """Refuses a job table that was restored, copied, emptied or left unprotected."""

    def check(self) -> TableState:
        """Whether jobs may be claimed now. Never raises, and asks DynamoDB seldom."""


@dataclass(frozen=True, kw_only=True)
class DueEntry:
    """A row that is due, as the index shows it: its job type is the prefix of its key."""

    job_key: JobKey
    due_at: datetime


class DueIndex(Protocol):
    """Finds due rows; the cost grows with the unresolved jobs, never with the table."""

    @property
    def shards(self) -> int:
        """How many partitions each action has; they are numbered from 0."""

    def due(
        self, action: DueAction, shard: int, *, since: datetime | None, until: datetime
    ) -> Iterator[DueEntry]:
        """The rows of one partition that fell due in this time, longest due first, read lazily."""


class SweepLeases(Protocol):
    """Keep a second sweep off a shard while one is at work; one that expired keeps nobody off."""

    def acquire(self, shard: int, *, holder: str, now: datetime, until: datetime) -> bool:
        """Take or prolong the lease of a shard; False: another sweep has it."""

    def release(self, shard: int, *, holder: str) -> None:
        """End the lease, if it is still this holder's."""


class Sweeps(Protocol):
    """Starts sweeps."""

    def start(self, sweep: Mapping[str, Json]) -> None:
        """Start the state machine with this input."""


@dataclass(frozen=True)
class JobListEntry:
    """A job as a list shows it before its row is read, and the time that the list goes by."""

    job_key: JobKey
    at: datetime

    @property
    def job_type(self) -> str:
        """Each key begins with it."""
        return self.job_key.partition(":")[0]


@dataclass(frozen=True)
class UnreadableRow:
    """A row that this deployment cannot parse: edited by hand, or written by a newer version."""

    job_key: JobKey
    reason: str


class JobIndex(Protocol):
    """Finds jobs for people; the cost grows with what is shown, never with the table."""

    def by_subject(self, subject: str, *, limit: int) -> list[JobKey]:
        """The jobs about a business id, the newest first."""

    def by_customer(self, customer_id: str, *, limit: int) -> list[JobKey]:
        """The jobs of a customer, the newest first."""

    def by_reference(self, ref: str, *, limit: int) -> list[JobKey]:
        """The jobs that carry a provider's reference."""

    def by_status(
        self,
        statuses: Sequence[Status],
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        oldest_first: bool = False,
    ) -> Iterator[JobListEntry]:
        """The jobs of these that operators act on, by when each got there, read as taken."""

    def count(self, statuses: Sequence[Status], *, since: datetime | None, limit: int) -> int:
        """How many of those got there since then; counting ends at `most`."""

    def get_many(self, keys: Sequence[JobKey]) -> "dict[JobKey, Job | UnreadableRow]":
        """Read these rows, consistently. Missing rows are left out; unreadable ones say why."""


class HistoryStore(Protocol):
    """Keeps history lines in objects, by day and job type."""

    def put(self, day: date, job_type: str, name: str, lines: Sequence[HistoryLine]) -> None:
        """Write one object; the same name takes the place of what it held."""

    def record_gap(self, gap: HistoryGap) -> None:
        """Write down that a part of the history is missing, until a backfill closes it."""

    def close_gap(self, gap: HistoryGap, *, at: datetime) -> None:
        """Write down that a backfill has seen all that a gap lost."""

    def save_backfill(self, progress: BackfillProgress) -> None:
        """Write down how far a backfill came."""


class HistoryReader(Protocol):
    """Reads the history; what it gives may have been written twice, but is given once."""

    def newest(self) -> Mapping[str, HistoryLine]:
        """The newest line of each job that the history knows, by its key."""

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None = None, limit: int
    ) -> list[HistoryLine]:
        """The jobs that had ended at `until`, and did so after `since`, the latest first."""

    def open_gaps(self) -> list[HistoryGap]:
        """The gaps that no backfill has closed, the oldest first."""

    def backfill_progress(self) -> BackfillProgress | None:
        """How far the last backfill came. Returns None if there was none."""


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """A part of the job table, as a scan reads it."""

    jobs: tuple[Job, ...]
    unreadable: tuple[tuple[str, int | None], ...]  # keys and versions
    after: str | None  # where the next part begins; None: this is the last


class RowScan(Protocol):
    """Reads the whole job table; the cost grows with the table."""

    def pages(self, *, after: str | None = None) -> Iterator[RowPage]:
        """Every row, consistently, page by page; `after` goes on behind a key."""


class FinishedJobs(Protocol):
    """Lists what is done from the history; the table has no index of it."""

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None, limit: int
    ) -> Sequence[JobListEntry]:
        """The jobs that ended in this time, both ends included, those that did last first.

        Failed ones may be among them: the rows tell.
        """


class EventBus(Protocol):
    """Tells other systems."""

    def publish(self, job: Job) -> None:
        """Publish that a job has ended; whoever listens may hear it more than once."""


@dataclass(frozen=True, kw_only=True)
class UniqueWindow:
    """A time in which only one job of some name may be enqueued, until that one starts."""

    name: str
    now: datetime
    until: datetime


@dataclass(frozen=True)
class WindowTaken:
    """Another job has the window."""

    holder: JobKey


class UniqueWindows(Protocol):
    """Remembers which job holds a window."""

    def create(
        self, job: Job, window: UniqueWindow, *, replacing: JobKey | None = None
    ) -> CreateResult | WindowTaken:
        """Write a new row together with its window, if that is free, over, or `replacing`'s."""


class BusinessTable(Protocol):
    """A business table that a contract reads."""

    def get(self, key: Mapping[str, str]) -> Mapping[str, object] | None:
        """Read a row, consistently."""

    def query_index(
        self, index: str, *, partitions: tuple[str, Sequence[str]], max_sort_key: tuple[str, str]
    ) -> Iterator[Mapping[str, object]]:
        """Query a sparse index: rows of these partitions whose sort key is at most this."""

    def update(self, write: BusinessWrite) -> bool:
        """Change a row apart from a job's end, if it holds what is expected; tells whether."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """Something a person must know: what, about which job, and what to do next."""

    subject: str
    text: str
    job_key: JobKey | None = None


class Notifier(Protocol):
    """Tells a person."""

    def notify(self, alert: Alert) -> bool:
        """Tell; False: it could not be delivered now."""


class MessageSource(Protocol):
    """The queue that a worker is fed from."""

    def redeliver_after(self, receipt: str, *, delay: timedelta) -> None:
        """Redeliver a received message after this delay."""


class RejectQueue(Protocol):
    """Keeps messages that can never be processed."""

    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        """Keep a message with the reason."""


class MessageSender(Protocol):
    """The queue that a producer sends to."""

    def send(self, bodies: Sequence[str]) -> list[bool]:
        """Send each body; tells for each whether the queue has it."""


class Dependencies(Protocol):
    """What a contract is built from; each is made on first use."""

    def table(self, name: str) -> BusinessTable:
        """Give a business table by its short name, such as `orders`."""

    def job_store(self) -> JobStore:
        """Give the job table, to read other jobs."""

    def secret(self, name: str) -> str:
        """Give a secret by its short name, such as `acme`."""

    def message_sender(self, queue: str) -> MessageSender:
        """Give a queue to send to by its short name, such as `sync`."""

    def provider(self, plugin: Provider[T, Any]) -> T:
        """The client of a provider that the contract's resources name."""

    def is_configured(self, plugin: AnyProvider) -> bool:
        """Whether a provider's optional settings are present, such as a sender address."""
