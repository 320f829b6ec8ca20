"""The history in memory. It passes the same conformance suite as the one on S3."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from oncely.domain.gaps import BackfillProgress, HistoryGap
from oncely.domain.history import HistoryLine, is_newer
from oncely.domain.lifecycle import ENDED


@dataclass
class MemoryHistory:
    """Writer and reader of history lines."""

    objects: dict[tuple[date, str, str], Sequence[HistoryLine]] = field(default_factory=dict)
    gaps: dict[str, HistoryGap] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    progress: BackfillProgress | None = None

    def put(self, day: date, job_type: str, name: str, lines: Sequence[HistoryLine]) -> None:
        """Write one object, or replace the one with this name."""
        self.objects[day, job_type, name] = tuple(lines)

    def record_gap(self, gap: HistoryGap) -> None:
        """Record that a part of the history is missing, until a backfill closes it."""
        self.gaps[gap.name] = gap

    def close_gap(self, gap: HistoryGap, *, at: datetime) -> None:
        """Record that a backfill has covered a gap."""
        del at
        self.closed.add(gap.name)

    def save_backfill(self, progress: BackfillProgress) -> None:
        """Save the progress of a backfill."""
        self.progress = progress

    def backfill_progress(self) -> BackfillProgress | None:
        """Return the progress of the last backfill. Returns None if there was none."""
        return self.progress

    def newest(self) -> dict[str, HistoryLine]:
        """Return the newest line of each job in the history, by job key."""
        return _newest_lines([line for lines in self.objects.values() for line in lines])

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None = None, limit: int
    ) -> list[HistoryLine]:
        """Return the jobs that ended after `since` and by `until`, the latest first."""
        first = since.astimezone(UTC).date()
        lines = [
            line
            for (day, its_type, _), group in self.objects.items()
            if day >= first and job_type in (None, its_type)
            for line in group
            if line.at < until
        ]
        ended = [
            line
            for line in _newest_lines(lines).values()
            if line.status in ENDED and line.at >= since
        ]
        return sorted(ended, key=lambda line: line.at, reverse=True)[:limit]

    def open_gaps(self) -> list[HistoryGap]:
        """Return the gaps that no backfill has closed, the oldest first."""
        still_open = (gap for name, gap in self.gaps.items() if name not in self.closed)
        return sorted(still_open, key=lambda gap: gap.recorded_at)


def _newest_lines(lines: Sequence[HistoryLine]) -> dict[str, HistoryLine]:
    newest: dict[str, HistoryLine] = {}
    for line in lines:
        if is_newer(line, newest.get(line.job_key)):
            newest[line.job_key] = line
    return newest
