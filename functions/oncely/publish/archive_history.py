"""Writes what a batch of the stream changed to the archive: one object per hour and type."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from oncely.domain.history import HistoryLine, history_line, unreadable_line
from oncely.domain.jobs import Job
from oncely.ports import HistoryStore


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """One write of one row. `unreadable`: this version cannot read the row after it."""

    job_key: str
    at: datetime  # when the table took it, to the second
    old: Job | None = None
    new: Job | None = None
    expired: bool = False
    unreadable: bool = False
    version: int | None = None  # of a row that is unreadable, if at least that could be read

    def to_history_line(self, generation: str) -> HistoryLine | None:
        """The line of this write. Returns None if the history does not record it."""
        if self.unreadable:
            return unreadable_line(
                self.job_key, generation=generation, at=self.at, version=self.version
            )
        return history_line(
            self.old, self.new, generation=generation, at=self.at, expired=self.expired
        )


@dataclass(frozen=True)
class HistoryWriter:
    """Safe to run again: the same batch writes the same objects."""

    store: HistoryStore

    def write(self, changes: Iterable[RowChange], *, generation: str, batch: str) -> int:
        """Write the lines of a batch, all or an error; `batch` is the same when it is retried.

        Returns how many objects were written.
        """
        lines = (change.to_history_line(generation) for change in changes)
        groups = group_lines(line for line in lines if line is not None)
        for (hour, job_type), group in groups.items():
            first, last = group[0].at, group[-1].at
            # Times first: a reader finds the objects of an hour without listing the whole day.
            name = f"{_format_clock(first)}-{_format_clock(last)}-{batch}"
            self.store.put(hour.date(), job_type, name, group)
        return len(groups)


def group_lines(lines: Iterable[HistoryLine]) -> dict[tuple[datetime, str], Sequence[HistoryLine]]:
    """The lines by their hour in UTC and their job type, in the order of their times."""
    groups: defaultdict[tuple[datetime, str], list[HistoryLine]] = defaultdict(list)
    for line in sorted(lines, key=lambda one: one.at):
        hour = line.at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        groups[hour, line.job_type].append(line)
    return dict(groups)


def _format_clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H%M%S}"
