"""The history in the archive: gzipped JSON lines by day and job type, and its gaps."""

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Final

from oncely.aws.objects import GZIP, S3Objects
from oncely.core.lifecycle import ENDED
from oncely.core.text import format_time
from oncely.history.gaps import BackfillProgress, HistoryGap
from oncely.history.lines import HistoryLine, is_newer, lines_about

# Objects are small, so reading one is mostly waiting.
MAX_CONCURRENCY: Final = 16
HISTORY_PREFIX: Final = "history/"
SUFFIX: Final = ".jsonl.gz"
_DAY_PREFIX: Final = f"{HISTORY_PREFIX}day="
# A gap is an object, and so is its closing: recording a gap twice does not reopen it.
_GAPS_PREFIX: Final = f"{HISTORY_PREFIX}gaps/"
_OPEN_GAP_SUFFIX: Final = ".gap.json"
_CLOSED_GAP_SUFFIX: Final = ".closed.json"
_BACKFILL_PROGRESS_KEY: Final = f"{_GAPS_PREFIX}backfill.json"
_START_OF_DAY: Final = "000000"
_END_OF_DAY: Final = "235959"
_NAME_PRECISION: Final = timedelta(seconds=1)  # names are enough


@dataclass(frozen=True)
class HistoryArchive:
    """Writes objects of lines, and reads several of them concurrently."""

    objects: S3Objects

    def put(self, day: date, job_type: str, name: str, lines: Sequence[HistoryLine]) -> None:
        """Write one object, or replace the one with this name."""
        text = "".join(json.dumps(line.to_dict(), separators=(",", ":")) + "\n" for line in lines)
        # Without the time, so that a retried batch writes the same bytes.
        body = gzip.compress(text.encode(), mtime=0)
        self.objects.put(f"{_folder(day, job_type)}{name}{SUFFIX}", body, GZIP)

    def record_gap(self, gap: HistoryGap) -> None:
        """Record that a part of the history is missing, until a backfill closes it."""
        self.objects.put_json(f"{_GAPS_PREFIX}{gap.name}{_OPEN_GAP_SUFFIX}", gap.to_dict())

    def close_gap(self, gap: HistoryGap, *, at: datetime) -> None:
        """Record that a backfill has covered a gap."""
        content = {"name": gap.name, "closed_at": format_time(at)}
        self.objects.put_json(f"{_GAPS_PREFIX}{gap.name}{_CLOSED_GAP_SUFFIX}", content)

    def open_gaps(self) -> list[HistoryGap]:
        """Return the gaps that no backfill has closed, the oldest first."""
        names = {key for key, _ in self.objects.list(_GAPS_PREFIX)}
        still_open = (
            one
            for one in names
            if one.endswith(_OPEN_GAP_SUFFIX)
            and f"{one.removesuffix(_OPEN_GAP_SUFFIX)}{_CLOSED_GAP_SUFFIX}" not in names
        )
        gaps = (HistoryGap.from_dict(json.loads(self.objects.read(one))) for one in still_open)
        return sorted(gaps, key=lambda gap: gap.recorded_at)

    def save_backfill(self, progress: BackfillProgress) -> None:
        """Save the progress of a backfill."""
        self.objects.put_json(_BACKFILL_PROGRESS_KEY, progress.to_dict())

    def backfill_progress(self) -> BackfillProgress | None:
        """Return the progress of the last backfill. Returns None if there was none."""
        found = self.objects.find(_BACKFILL_PROGRESS_KEY)
        return None if found is None else BackfillProgress.from_dict(json.loads(found.body))

    def lines(
        self, *, since: date | None = None, until: date | None = None, job_type: str | None = None
    ) -> Iterator[HistoryLine]:
        """Yield every line of these days, both included. Lines may repeat."""
        return self.read(self.names(since=since, until=until, job_type=job_type))

    def names(
        self, *, since: date | None = None, until: date | None = None, job_type: str | None = None
    ) -> Iterator[str]:
        """Yield the objects that hold the lines of these days, both included."""
        days = (
            date.fromisoformat(one.removeprefix(_DAY_PREFIX).rstrip("/"))
            for one in self.objects.folders(_DAY_PREFIX)
        )
        for day in days:
            if (since is None or day >= since) and (until is None or day <= until):
                yield from self._names(_folder(day, job_type))

    def newest(self) -> dict[str, HistoryLine]:
        """Return the newest line of each job in the history, by job key."""
        kept: dict[str, HistoryLine] = {}
        for line in self.lines():
            if is_newer(line, kept.get(line.job_key)):
                kept[line.job_key] = line
        return kept

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None = None, limit: int
    ) -> list[HistoryLine]:
        """Return the jobs that ended between `since` and `until`, the latest first.

        Reads the newest objects first, and no more than the limit asks for.
        """
        newest: dict[str, HistoryLine] = {}
        ended: list[HistoryLine] = []
        names = iter(self._newest_first(since=since, until=until, job_type=job_type))
        while batch := list(islice(names, MAX_CONCURRENCY)):
            # No unread line is newer than the last line of this object.
            reached = _last_at(batch[-1]) + _NAME_PRECISION
            for line in self.read(batch):
                if line.at < until and is_newer(line, newest.get(line.job_key)):
                    newest[line.job_key] = line
            found = [line for line in newest.values() if line.status in ENDED and line.at >= since]
            ended = sorted(found, key=lambda line: line.at, reverse=True)[:limit]
            if len(ended) >= limit and ended[-1].at >= reached:
                break
        return ended

    def about(
        self, business_id: str, *, since: date | None = None, until: date | None = None
    ) -> list[HistoryLine]:
        """Return the lines of these days that name an id, the oldest first."""
        return lines_about(business_id, self.lines(since=since, until=until))

    def _newest_first(
        self, *, since: datetime, until: datetime, job_type: str | None
    ) -> Iterator[str]:
        """The objects of this period, newest first."""
        first, last = since.astimezone(UTC), until.astimezone(UTC)
        day = last.date()
        while day >= first.date():
            folder = _folder(day, job_type)
            types = [folder] if job_type else self.objects.folders(folder)
            # An object holds lines of one hour.
            after = f"{first:%H}" if day == first.date() else ""
            names = (name for one in types for name in self._names(one, after=f"{one}{after}"))
            wanted = (name for name in names if _first_at(name) <= last)
            yield from sorted(wanted, key=_last_at, reverse=True)
            day -= timedelta(days=1)

    def _names(self, prefix: str, *, after: str = "") -> Iterator[str]:
        for key, _ in self.objects.list(prefix, after=after):
            if key.endswith(SUFFIX):
                yield key

    def read(self, names: Iterable[str]) -> Iterator[HistoryLine]:
        """Yield the lines of these objects, with a few objects in memory at a time."""
        waiting = iter(names)
        with ThreadPoolExecutor(max_workers=MAX_CONCURRENCY) as pool:
            while batch := list(islice(waiting, MAX_CONCURRENCY)):
                for body in pool.map(self.objects.read, batch):
                    for line in gzip.decompress(body).splitlines():
                        yield HistoryLine.from_dict(json.loads(line))


def _folder(day: date, job_type: str | None = None) -> str:
    """The prefix of a day's objects, or of one job type on that day."""
    of_day = f"{_DAY_PREFIX}{day.isoformat()}/"
    return f"{of_day}job_type={job_type}/" if job_type else of_day


def _first_at(name: str) -> datetime:
    """The time of an object's first line, to the second; a backfill holds any of its day."""
    return _parse_object_time(name, position=0, default=_START_OF_DAY)


def _last_at(name: str) -> datetime:
    """The time of an object's last line, to the second; a backfill holds any of its day."""
    return _parse_object_time(name, position=1, default=_END_OF_DAY)


def _parse_object_time(name: str, *, position: int, default: str) -> datetime:
    day = name.removeprefix(_DAY_PREFIX).partition("/")[0]
    clock = name.rpartition("/")[2].split("-")[position]
    clock_text = clock if len(clock) == len(default) and clock.isdigit() else default
    return datetime.strptime(f"{day} {clock_text}", "%Y-%m-%d %H%M%S").replace(tzinfo=UTC)
