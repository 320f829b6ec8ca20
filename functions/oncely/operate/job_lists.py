"""Where each list of jobs comes from: what operators act on, what is in progress, what is done."""

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
    {
        IN_PROGRESS: tuple(sorted(UNRESOLVED)),
        **{status.value: (status,) for status in Status},
    }
)
# The history is read day by day, so a list of what is done has a beginning.
FINISHED_WINDOW: Final = timedelta(days=1)
_MAX_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)


def statuses_for_list(name: str | None) -> tuple[Status, ...]:
    """The statuses of a list; None: of everything that operators act on."""
    if name is not None and name not in LISTS:
        raise InvalidRequestError(f"there is no list {name[:40]!r}; there are {', '.join(LISTS)}")
    return tuple(sorted(ATTENTION)) if name is None else LISTS[name]


@dataclass(frozen=True, kw_only=True)
class JobLists:
    """Reads the indexes and the history; never the table."""

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
        """The jobs of a list, read as they are taken; `behind` goes on where a page ended.

        What operators act on and what is done go by when each got there, the newest first. What
        is in progress goes by when each is due, the longest due first.
        """
        if statuses == (Status.FINISHED,):
            end = until or self.clock.now()
            begin = since or end - FINISHED_WINDOW
            found = self.finished_jobs.recent(
                since=begin, until=resume_at or end, job_type=job_type, limit=limit
            )
            return iter(found)
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
        """What is in progress by when it is due, the longest due first.

        Among them are a few of other statuses, such as ends that still owe something: rows tell.
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
