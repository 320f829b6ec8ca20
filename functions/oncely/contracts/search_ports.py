"""The ports of searches, of the history and of scans. Workers do not import them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol, runtime_checkable

from oncely.core.effect_outcomes import LookupFailed
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.history.gaps import BackfillProgress, HistoryGap
from oncely.history.lines import HistoryLine
from oncely.operate.bulk_runs import BulkRun
from oncely.plugins.ledger import EntryKind, LedgerEntry, LedgerPage, PaymentOwner


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

    def get_many(self, keys: Sequence[JobKey]) -> "dict[JobKey, JobRow | UnreadableRow]":
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
    """The reader of the history. It returns duplicate lines once, except in `lines`."""

    def lines(
        self, *, since: date | None = None, until: date | None = None, job_type: str | None = None
    ) -> Iterator[HistoryLine]:
        """Yield every line of these days, both included. Lines may repeat."""

    def newest(self) -> Mapping[str, HistoryLine]:
        """Return the newest line of each job in the history, by job key."""

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None = None, limit: int
    ) -> list[HistoryLine]:
        """Return the jobs that ended after `since` and by `until`, the latest first."""

    def about(
        self, business_id: str, *, since: date | None = None, until: date | None = None
    ) -> list[HistoryLine]:
        """Return the lines of these days that name an id, the oldest first."""

    def open_gaps(self) -> list[HistoryGap]:
        """Return the gaps that no backfill has closed, the oldest first."""

    def backfill_progress(self) -> BackfillProgress | None:
        """Return the progress of the last backfill. Returns None if there was none."""


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """A page of a scan of the job table."""

    jobs: tuple[JobRow, ...]
    unreadable: tuple[tuple[str, int | None], ...]  # keys and versions
    after: str | None  # continues the scan; None on the last page


class RowScan(Protocol):
    """A scan of the whole job table. Its cost grows with the table."""

    def pages(self, *, after: str | None = None) -> Iterator[RowPage]:
        """Read every row consistently, page by page, starting behind the key `after`."""


class BulkRuns(Protocol):
    """The saved selections of bulk runs."""

    def save(self, run: BulkRun) -> None:
        """Save a new run."""

    def get(self, run_id: str) -> BulkRun | None:
        """Read a run. Returns None if there is none."""


class FinishedJobs(Protocol):
    """The list of finished jobs, from the history: the table has no index of them."""

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None, limit: int
    ) -> Sequence[JobListEntry]:
        """Return the jobs that ended in this period, bounds included, the latest first.

        Failed jobs may be among them: check the status in the row.
        """


class PaymentLedger(Protocol):
    """A payment provider's own list of what it did with money. Read-only."""

    def list_entries(
        self, kind: EntryKind, *, since: datetime, until: datetime, after: str | None
    ) -> LedgerPage | LookupFailed:
        """List the entries from `since` until before `until`, some at a time and in any order.

        Entries of other applications on the account are included. An entry may repeat.
        """

    def find_charge(self, ref: str) -> LedgerEntry | LookupFailed | None:
        """Find a charge by its id or provider reference.

        Returns None if there is none, or if it is not decided.
        """

    def find_refund(self, ref: str) -> LedgerEntry | LookupFailed | None:
        """Find a refund by its id. Returns None if there is none, or if it is not decided."""

    def find_owners(self, text: str) -> tuple[PaymentOwner, ...] | LookupFailed | None:
        """Find payments by an id of this provider or a customer's email.

        The newest come first. Returns None if the text is neither; then nothing was asked.
        """

    def job_label(self, job_key: str) -> str:
        """Return the `job_label` that entries of this job have."""


@runtime_checkable
class HasLedger(Protocol):
    """The client of a provider that takes payments."""

    @property
    def ledger(self) -> PaymentLedger: ...
    def key_scope(self) -> str: ...
