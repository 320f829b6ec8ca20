"""The engine's ports, as small Protocols. Adapters do not inherit from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias, TypeVar

from oncely.alerts.budget import AlertKind
from oncely.contracts.job_settings import JobSettings
from oncely.core.claims import Claim
from oncely.core.due import DueAction
from oncely.core.effect_outcomes import BusinessWrite, Json
from oncely.core.event_records import EventRecord
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.gates.rules import GateSnapshot, GateState, Pause, Slots
from oncely.plugins.events import EffectChange
from oncely.plugins.provider import AnyProvider, Provider

T = TypeVar("T")
S = TypeVar("S", bound=JobSettings)
JobResult: TypeAlias = Mapping[str, Json]


class Clock(Protocol):
    """The current time, in UTC."""

    def now(self) -> datetime: ...


@dataclass(frozen=True)
class _WithJob:
    job: JobRow


@dataclass(frozen=True)
class _WithRow:
    row: JobRow


class Claimed(_WithJob):
    """A successful claim: this worker is the owner."""


class ClaimFailed(_WithRow):
    """A claim that lost to another row, which the same call returned."""


@dataclass(frozen=True)
class PrerequisiteNotMet:
    """A claim whose prerequisite job has not failed."""

    other: JobRow | None


class Swapped(_WithJob):
    """A row that was written."""


@dataclass(frozen=True)
class VersionConflict:
    """A row that changed since it was read."""

    row: JobRow | None  # None if the row was removed


@dataclass(frozen=True)
class BusinessWriteConflict:
    """A business row that failed its precondition. Nothing was written, not even the job row."""

    reason: str
    is_permanent: bool = False  # no table can hold the values, whatever its rows say


class Created(_WithJob):
    """A new row."""


class AlreadyExists(_WithRow):
    """A row that existed before."""


@dataclass(frozen=True)
class ForgedRow:
    """A row that none of our functions wrote. Nothing of it counts, and `create` may replace it.

    See `JobRow.is_forged`. A row that cannot be read counts the same.
    """

    status: str  # as it was inserted, or "unreadable"
    seen: Mapping[str, Any] = field(compare=False)  # what `create` compares, in the store's form


ClaimResult: TypeAlias = Claimed | ClaimFailed | PrerequisiteNotMet | ForgedRow
SwapResult: TypeAlias = Swapped | VersionConflict | BusinessWriteConflict
CreateResult: TypeAlias = Created | AlreadyExists | ForgedRow


class JobStore(Protocol):
    """The job rows. Every write states what it expects to find; losing a race is a value."""

    def get(self, key: JobKey) -> JobRow | None:
        """Read a row consistently. Returns None if there is none."""

    def create(self, job: JobRow, *, replacing: ForgedRow | None = None) -> CreateResult:
        """Write a new row if none exists, or in place of a forged one, of which nothing stays."""

    def claim(self, claim: Claim) -> ClaimResult:
        """Claim a row that is absent or ready, in one write."""

    def hint(self, key: JobKey, *, deployment: str | None, now: datetime) -> bool:
        """Make an unknown job due now. Returns False if the row stays as it is."""

    def save_event(self, row: JobRow, event: EventRecord) -> bool:
        """Save an event, whatever the status. Returns False if another was saved since."""

    def compare_and_swap(
        self, before: JobRow, after: JobRow, *, business_writes: Sequence[BusinessWrite] = ()
    ) -> SwapResult:
        """Replace `before` with `after` if it is unchanged, in one transaction with the writes."""


@dataclass(frozen=True, kw_only=True)
class TableOpen:
    """A job table that holds every proof of this deployment."""

    deployment: str | None  # its identity, for idempotency keys
    replays_until: datetime | None = None  # a job created before then looks up before it executes
    tag_key: str = field(default="", repr=False, compare=False)  # of the tags of its claims

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


class GateTable(Protocol):
    """The gates of all providers, and the pauses of operators."""

    def read(self) -> GateSnapshot:
        """Read everything. It is a handful of items."""

    def lease(
        self, gate: str, *, count: int, interval: timedelta, now: datetime, latest: datetime
    ) -> tuple[GateState, Slots | None]:
        """Lease slots. Returns the gate, and None if every slot before `latest` is taken."""

    def change_circuit(self, gate: str, before: GateState, after: GateState) -> bool:
        """Open, probe or close a circuit, if it did not change since it was read."""

    def write_pause(self, before: Pause | None, after: Pause) -> bool:
        """Pause or resume, if the pause did not change since it was read."""


class EventBus(Protocol):
    """The event bus for other systems."""

    def publish(self, job: JobRow) -> None:
        """Publish that a job has ended. Subscribers may receive it more than once."""

    def publish_change(self, job: JobRow, change: EffectChange) -> None:
        """Publish that the effect of a job changed later, also more than once."""


@dataclass(frozen=True, kw_only=True)
class UniqueWindow:
    """A period in which only one job of a type and this name may be enqueued, until it starts."""

    name: str
    now: datetime
    until: datetime


@dataclass(frozen=True)
class WindowTaken:
    """A window that another job holds."""

    holder: JobKey


class JobInserter(Protocol):
    """Inserts new rows, and never replaces one."""

    def insert(self, job: JobRow) -> CreateResult: ...

    def insert_unique(
        self, job: JobRow, window: UniqueWindow, *, replacing: JobKey | None = None
    ) -> CreateResult | WindowTaken:
        """Insert a row and its window, if the window is free, expired, or `replacing`'s."""


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
    kind: AlertKind | None = None  # None if the budget does not apply, as for a digest
    names: tuple[str, ...] = ()  # the job keys, or the ids of messages without one
    once: bool = False  # one alert per job: nothing else keeps it from being repeated


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

    def reject(
        self, body: str, *, reason: str, message_id: str, job_key: str | None = None
    ) -> None:
        """Send a message with the reason and its job."""


class RejectArchive(Protocol):
    """The archive of rejected messages."""

    def save_reject(self, message_id: str, reject: Mapping[str, Json], *, at: datetime) -> None: ...


class MessageSender(Protocol):
    """The queue that a producer sends to."""

    def send(self, bodies: Sequence[str], *, groups: Sequence[str | None] = ()) -> list[bool]:
        """Send each body. Returns for each whether the queue accepted it.

        `groups` names the tenant of each body: one tenant's backlog does not delay the others.
        """


class Dependencies(Protocol):
    """What a contract may use. Each is created on first use."""

    @property
    def clock(self) -> Clock:
        """The clock, for a precheck that depends on the time."""

    def table(self, name: str) -> BusinessTable:
        """Return a business table by its short name, such as `orders`."""

    def retention(self, table: str) -> timedelta:
        """Return how long rows of a business table are kept, if its schema has a default."""

    def job_store(self) -> JobStore:
        """Return the job table, to read other jobs."""

    def secret(self, name: str) -> str:
        """Return a secret by its short name, such as `acme`."""

    def job_settings(self, settings_type: type[S]) -> S:
        """Return the settings that the contract's resources declare."""

    def message_sender(self, queue: str) -> MessageSender:
        """Return the sender of a queue by its short name, such as `sync`."""

    def provider(self, plugin: Provider[T, Any]) -> T:
        """Return the client of a provider in the contract's resources."""

    def is_configured(self, plugin: AnyProvider) -> bool:
        """Return whether a provider's optional settings are present, such as a sender address."""
