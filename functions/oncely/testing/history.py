"""The history in memory. It passes the same conformance suite as the one on S3."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from oncely.domain.erasure_log import ErasedJobs, ErasureEntry
from oncely.domain.gaps import BackfillProgress, HistoryGap
from oncely.domain.history import HistoryLine, is_newer, lines_about
from oncely.domain.lifecycle import ENDED


@dataclass
class MemoryHistory:
    """Writer and reader of history lines. Replaced objects stay as older versions."""

    objects: dict[tuple[date, str, str], Sequence[HistoryLine]] = field(default_factory=dict)
    older: list[Sequence[HistoryLine]] = field(default_factory=list)
    rejects: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    gaps: dict[str, HistoryGap] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    progress: BackfillProgress | None = None

    def put(self, day: date, job_type: str, name: str, lines: Sequence[HistoryLine]) -> None:
        """Write one object, or replace the one with this name."""
        if (replaced := self.objects.get((day, job_type, name))) is not None:
            self.older.append(replaced)
        self.objects[day, job_type, name] = tuple(lines)

    def redact_history(
        self, redact: Callable[[Mapping[str, Any]], Mapping[str, Any]], *, dry_run: bool
    ) -> Iterator[bool]:
        """Rewrite the lines that `redact` changes, and drop older versions that hold them."""
        for name, lines in list(self.objects.items()):
            redacted = [HistoryLine.from_dict(redact(line.to_dict())) for line in lines]
            yield redacted != list(lines)
            if not dry_run:
                self.objects[name] = tuple(redacted)
        if not dry_run:
            self.older = [
                lines for lines in self.older if all(_is_same(redact, line) for line in lines)
            ]

    def delete_rejects(
        self, matches: Callable[[Mapping[str, Any]], bool], *, dry_run: bool
    ) -> Iterator[bool]:
        """Delete the rejects that match."""
        for name, reject in list(self.rejects.items()):
            matched = matches(reject)
            if matched and not dry_run:
                del self.rejects[name]
            yield matched

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

    def lines(
        self, *, since: date | None = None, until: date | None = None, job_type: str | None = None
    ) -> Iterator[HistoryLine]:
        """Yield every line of these days, both included. Lines may repeat."""
        for (day, its_type, _), group in self.objects.items():
            if (since or day) <= day <= (until or day) and job_type in {None, its_type}:
                yield from group

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

    def about(
        self, business_id: str, *, since: date | None = None, until: date | None = None
    ) -> list[HistoryLine]:
        """Return the lines of these days that name an id, the oldest first."""
        return lines_about(business_id, self.lines(since=since, until=until))

    def open_gaps(self) -> list[HistoryGap]:
        """Return the gaps that no backfill has closed, the oldest first."""
        still_open = (gap for name, gap in self.gaps.items() if name not in self.closed)
        return sorted(still_open, key=lambda gap: gap.recorded_at)


def _is_same(redact: Callable[[Mapping[str, Any]], Mapping[str, Any]], line: HistoryLine) -> bool:
    return redact(line.to_dict()) == line.to_dict()


@dataclass
class MemoryErasureLog:
    """The erasure log in memory."""

    entries: dict[str, ErasureEntry] = field(default_factory=dict)
    runs: list[Mapping[str, object]] = field(default_factory=list)

    def record(self, entry: ErasureEntry) -> None:
        """Record a job. Recording it again changes nothing."""
        self.entries[entry.name] = entry

    def record_run(self, run: Mapping[str, object], *, at: datetime) -> None:
        """Write the audit entry of one erasure."""
        self.runs.append({**run, "at": at})

    def erased(self, *, since: date | None = None) -> ErasedJobs:
        """Return the jobs that were recorded on this day or later, or all."""
        return ErasedJobs.from_names(
            name
            for name, entry in self.entries.items()
            if since is None or entry.requested_at.date() >= since
        )


def _newest_lines(lines: Sequence[HistoryLine]) -> dict[str, HistoryLine]:
    newest: dict[str, HistoryLine] = {}
    for line in lines:
        if is_newer(line, newest.get(line.job_key)):
            newest[line.job_key] = line
    return newest
