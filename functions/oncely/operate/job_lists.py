"""Where each list of jobs comes from: an index for each status, the history for done jobs."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from oncely.domain.due import due_action
from oncely.domain.errors import InvalidRequestError
from oncely.domain.lifecycle import ATTENTION, UNRESOLVED, Status
from oncely.ports import Clock, DueIndex, FinishedJobs, JobIndex, JobListEntry

IN_PROGRESS: Final = "in_progress"
LISTS: Final[Mapping[str, tuple[Status, ...]]] = MappingProxyType(
    {IN_PROGRESS: tuple(sorted(UNRESOLVED)), **{status.value: (status,) for status in Status}}
)
# The history is read day by day, so the list of done jobs needs a start.
FINISHED_WINDOW: Final = timedelta(days=1)
_MAX_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)


def statuses_for_list(name: str | None) -> tuple[Status, ...]:
    """The statuses of a list (default: all that operators act on)."""
    if name is not None and name not in LISTS:
        raise InvalidRequestError(f"unknown status {name[:40]!r}: use one of {', '.join(LISTS)}")
    return tuple(sorted(ATTENTION)) if name is None else LISTS[name]


@dataclass(frozen=True, kw_only=True)
class JobLists:
    """Reads the indexes and the history. Never scans the table."""

    job_index: JobIndex
    due_index: DueIndex
    finished_jobs: FinishedJobs
    clock: Clock

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
        if statuses == (Status.FINISHED,):
            end = until or self.clock.now()
            begin, end = since or end - FINISHED_WINDOW, resume_at or end
            recent = self.finished_jobs.recent
            return iter(recent(since=begin, until=end, job_type=job_type, limit=limit))
        if ATTENTION.issuperset(statuses):
            return self.job_index.by_status(statuses, since=since, until=resume_at or until)
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
        rows = heapq.merge(
            *(
                self.due_index.due(action, shard, since=since, until=until or _MAX_TIME)
                for action in sorted({due_action(status) for status in statuses})
                for shard in range(self.due_index.shards)
            ),
            key=lambda one: one.due_at,
        )
        return (JobListEntry(one.job_key, one.due_at) for one in rows)
