"""Writes the history: stream batches to the archive, and a backfill scan to close gaps."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

from oncely.core.schedule import Clock
from oncely.history.archive import HistoryArchive
from oncely.history.erasure_log import RECENT, ErasureLog
from oncely.history.gaps import BackfillProgress, HistoryGap
from oncely.history.lines import HistoryLine, backfill_line, unreadable_line
from oncely.history.sources import RowPage

if TYPE_CHECKING:
    from oncely.app import App


@dataclass(frozen=True)
class HistoryWriter:
    """Writes one object per hour and job type. A retried batch writes the same objects.

    A stream record may be older than the erasure of its job, so the log is read for each batch.
    """

    archive: HistoryArchive
    erasure_log: ErasureLog
    clock: Clock

    def write(self, lines: Sequence[HistoryLine], *, batch: str) -> int:
        """Write the lines of a batch, and return the number of objects.

        `batch` is the same when the batch is retried.
        """
        if not lines:
            return 0
        erased = self.erasure_log.erased(since=(self.clock.now() - RECENT).date())
        groups = group_lines(erased.redact(lines))
        for (hour, job_type), group in groups.items():
            first, last = group[0].at, group[-1].at
            # Times first, so that readers find an hour without listing the whole day.
            name = f"{_format_clock(first)}-{_format_clock(last)}-{batch}"
            self.archive.put(hour.date(), job_type, name, group)
        return len(groups)


def group_lines(lines: Iterable[HistoryLine]) -> dict[tuple[datetime, str], Sequence[HistoryLine]]:
    """Group lines by UTC hour and job type, each in order of time."""
    groups: defaultdict[tuple[datetime, str], list[HistoryLine]] = defaultdict(list)
    for line in sorted(lines, key=lambda one: one.at):
        hour = line.at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        groups[hour, line.job_type].append(line)
    return dict(groups)


def _format_clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H%M%S}"


# Rows are not in order of time. Large buffers make few objects, and fit into 200 MB of memory.
MAX_BUFFERED_LINES: Final = 50_000


@dataclass(frozen=True, kw_only=True)
class BackfillResult:
    """What a backfill did, or would do in a dry run."""

    progress: BackfillProgress
    closed: tuple[HistoryGap, ...] = ()
    still_open: tuple[HistoryGap, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Backfill:
    """Scans the job table to close gaps. Safe to interrupt and to repeat."""

    app: "App"
    max_buffered_lines: int = MAX_BUFFERED_LINES

    def run(
        self,
        *,
        generation: str,
        rows_from: datetime | None = None,
        dry_run: bool = False,
        report: Callable[[BackfillProgress], None] = lambda _: None,
    ) -> BackfillResult:
        """Write a line for each row that changed since `rows_from`, or for all; then close gaps."""
        progress = BackfillProgress(
            generation=generation, started_at=self.app.ports.clock.now(), rows_from=rows_from
        )
        earlier = None if dry_run else self.app.ports.history.backfill_progress()
        if earlier is not None and earlier.can_continue_as(progress):
            progress = earlier
        waiting: list[HistoryLine] = []
        for page in self.app.ports.row_scan.pages(after=progress.after):
            lines = _history_lines(page, progress, now=self.app.ports.clock.now())
            waiting.extend(lines)
            progress = replace(
                progress,
                rows=progress.rows + len(page.jobs) + len(page.unreadable),
                lines=progress.lines + len(lines),
                after=page.after,
            )
            if not dry_run and len(waiting) >= self.max_buffered_lines and page.after is not None:
                progress = self._write(waiting, progress)
                waiting = []
            report(progress)
        progress = replace(progress, done=True)
        if not dry_run:
            progress = self._write(waiting, progress)
        return self._close_gaps(progress, dry_run=dry_run)

    def _write(self, lines: Sequence[HistoryLine], progress: BackfillProgress) -> BackfillProgress:
        """Write lines, then save the progress."""
        # The same names when an interrupted scan resumes.
        name = f"backfill-{progress.started_at:%Y%m%dT%H%M%S}-{progress.batches:06d}"
        groups: defaultdict[tuple[date, str], list[HistoryLine]] = defaultdict(list)
        for line in self.app.ports.erasure_log.erased().redact(lines):
            groups[line.at.astimezone(UTC).date(), line.job_type].append(line)
        for (day, job_type), group in groups.items():
            self.app.ports.history.put(day, job_type, name, group)
        written = replace(progress, batches=progress.batches + 1)
        self.app.ports.history.save_backfill(written)
        return written

    def _close_gaps(self, progress: BackfillProgress, *, dry_run: bool) -> BackfillResult:
        gaps = self.app.ports.history.open_gaps()
        closed = tuple(
            gap
            for gap in gaps
            if gap.is_closed_by(scanned_since=progress.started_at, rows_from=progress.rows_from)
        )
        if not dry_run:
            for gap in closed:
                self.app.ports.history.close_gap(gap, at=self.app.ports.clock.now())
        left = tuple(gap for gap in gaps if gap not in closed)
        return BackfillResult(progress=progress, closed=closed, still_open=left)


def _history_lines(
    page: RowPage, progress: BackfillProgress, *, now: datetime
) -> list[HistoryLine]:
    wanted = (
        job
        for job in page.jobs
        if not job.is_forged
        and (progress.rows_from is None or job.updated_at >= progress.rows_from)
    )
    generation = progress.generation
    return [
        *(backfill_line(job, generation=generation) for job in wanted),
        *(
            unreadable_line(key, generation=generation, at=now, version=version)
            for key, version in page.unreadable
        ),
    ]
