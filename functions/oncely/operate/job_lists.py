"""Where each list of jobs comes from, and where its next page starts."""

import base64
import binascii
import heapq
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from oncely.core.due import DueAction, due_action
from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import ATTENTION, IN_REVIEW, LISTED, UNRESOLVED, Label, Status
from oncely.core.text import format_time, parse_time
from oncely.operate.job_index import JobIndex, JobListEntry
from oncely.reconcile.due_index import DueEntry, DueIndex

if TYPE_CHECKING:
    from oncely.ports import Ports

IN_PROGRESS: Final = "in_progress"
LISTS: Final[Mapping[str, tuple[Status, ...]]] = MappingProxyType(
    {IN_PROGRESS: tuple(sorted(UNRESOLVED)), **{status.value: (status,) for status in Status}}
)
# The history is read day by day, so the list of done jobs needs a start.
FINISHED_WINDOW: Final = timedelta(days=1)
_LINE_PRECISION: Final = timedelta(milliseconds=1)  # a line tells no less
_MAX_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)


# Displayed names are accepted as well.
_SHOWN_WORDS: Final[Mapping[str, str]] = {
    **{str(status.label): str(status) for status in Status if status not in UNRESOLVED},
    str(Label.PENDING): IN_PROGRESS,
}
# Every word that means a list, those that people see first.
LIST_WORDS: Final = tuple(dict.fromkeys((*_SHOWN_WORDS, *LISTS)))


def list_name(text: str) -> str | None:
    """The list with this stored or displayed name. Returns None if there is none."""
    plain = text.strip().lower().replace("-", " ").replace("_", " ")
    return _SHOWN_WORDS.get(plain) or (name if (name := plain.replace(" ", "_")) in LISTS else None)


def statuses_for_list(name: str | None) -> tuple[Status, ...]:
    """The statuses of a list (default: all that operators act on)."""
    if name is None:
        return tuple(sorted(ATTENTION))
    if (known := list_name(name)) is None:
        raise InvalidRequestError(
            f"unknown status {name[:40]!r}: use one of {', '.join(LIST_WORDS)}"
        )
    return LISTS[known]


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """Which jobs to list. A field that is None selects all.

    `since` and `until` bound the time that the list is sorted by. No index supports `error` and
    `customer_id`, so each row is read first.
    """

    status: str | None = None  # a list by its stored or displayed name
    job_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    error: str | None = None  # a part of the last error, in any case
    customer_id: str | None = None

    def __post_init__(self) -> None:
        # DynamoDB rejects a reversed window too, but its error does not say what to change.
        if self.since is not None and self.until is not None and self.until < self.since:
            raise InvalidRequestError("the time range ends before it begins: swap the two times")

    @property
    def statuses(self) -> tuple[Status, ...]:
        """The statuses of the list."""
        return statuses_for_list(self.status)

    def selects(self, job: JobRow) -> bool:
        """Whether a row of the list matches. The index lags: the row may have left the list."""
        if job.status not in self.statuses or self.customer_id not in {None, job.customer_id}:
            return False
        return self.error is None or self.error.casefold() in (job.last_error or "").casefold()


ALL_JOBS: Final = JobFilter()


@dataclass(frozen=True)
class JobLists:
    """An index for each status, and the history for done jobs. Never scans the table."""

    ports: "Ports"

    def entries(
        self,
        statuses: tuple[Status, ...],
        *,
        since: datetime | None,
        until: datetime | None,
        resume_at: datetime | None = None,
        job_type: str | None = None,
        limit: int,
    ) -> Iterator[JobListEntry]:
        """The jobs of a list, read lazily. `resume_at` continues where a page ended.

        Jobs in progress are sorted by due time, oldest first. All others are sorted by when they
        entered their status, newest first.
        """
        if all(status.is_finished for status in statuses):
            end = until or self.ports.clock.now()
            begin, end = since or end - FINISHED_WINDOW, resume_at or end
            # Failed jobs may be among them: the row tells.
            lines = self.ports.history.recent(
                since=begin, until=end + _LINE_PRECISION, job_type=job_type, limit=limit
            )
            return (JobListEntry(JobKey(line.job_key), line.at) for line in lines)
        if LISTED.issuperset(statuses):
            return self.ports.job_index.by_status(statuses, since=since, until=resume_at or until)
        return self.due(statuses, since=resume_at or since, until=until)

    def due(
        self,
        statuses: tuple[Status, ...],
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[JobListEntry]:
        """The jobs in progress by due time, oldest first.

        A few have other statuses, such as ended jobs that are not published yet. The caller reads
        the rows and drops them.
        """
        partitions = self._partitions(statuses, since=since, until=until or _MAX_TIME)
        rows = heapq.merge(*partitions, key=lambda one: one.due_at)
        return (JobListEntry(one.job_key, one.due_at) for one in rows)

    def count_due(self, statuses: tuple[Status, ...], *, limit: int) -> tuple[int, datetime | None]:
        """Count the jobs in progress up to a limit, and return when the first of them is due.

        Partition by partition: in the order of their times, it would read more than it counts.
        """
        counted, first_due = 0, list[datetime]()
        for partition in self._partitions(statuses, since=None, until=_MAX_TIME):
            # The first is read in any case, since it may be the oldest of all.
            times = [one.due_at for one in islice(partition, max(1, limit - counted))]
            first_due += times[:1]
            counted += len(times)
        return min(counted, limit), min(first_due, default=None)

    def _partitions(
        self, statuses: tuple[Status, ...], *, since: datetime | None, until: datetime
    ) -> list[Iterator[DueEntry]]:
        return [
            self.ports.due_index.due(action, shard, since=since, until=until)
            for action in sorted({due_action(status) for status in statuses})
            for shard in range(self.ports.due_index.shards)
        ]


@dataclass(frozen=True)
class ListCursor:
    """A time, and the jobs of that time already shown: an index may reorder equal times."""

    at: datetime | None = None
    shown: frozenset[JobKey] = frozenset()

    @classmethod
    def parse(cls, text: str | None) -> Self:
        if not text:
            return cls()
        try:
            at, shown = json.loads(base64.urlsafe_b64decode(text.encode()))
            return cls(parse_time(at), frozenset(JobKey(str(key)) for key in shown))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            raise InvalidRequestError("invalid cursor: start from the first page") from None

    def __str__(self) -> str:
        at = None if self.at is None else format_time(self.at)
        plain = json.dumps([at, sorted(self.shown)], separators=(",", ":"))
        return base64.urlsafe_b64encode(plain.encode()).decode()

    def already_shown(self, entry: JobListEntry) -> bool:
        return entry.at == self.at and entry.job_key in self.shown

    def after(self, entry: JobListEntry) -> "ListCursor":
        same = self.shown if entry.at == self.at else frozenset()
        return ListCursor(entry.at, same | {entry.job_key})


def open_job_keys(due_index: DueIndex, job_index: JobIndex) -> Iterator[JobKey]:
    """Yield the jobs that are in progress, need review, or have something to publish."""
    for action in DueAction:
        for shard in range(due_index.shards):
            due = due_index.due(action, shard, since=None, until=_MAX_TIME)
            yield from (one.job_key for one in due)
    yield from (one.job_key for one in job_index.by_status(tuple(IN_REVIEW)))
