"""Reads the history on S3: lines by day and type, the newest of each job, and gaps."""

import gzip
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import translated
from oncely.core.keys import JobKey
from oncely.core.lifecycle import ENDED
from oncely.history.archive import HistoryReader
from oncely.history.gaps import BackfillProgress, HistoryGap
from oncely.history.lines import HistoryLine, JobListEntry, is_newer, lines_about
from oncely.history.s3_store import (
    BACKFILL_PROGRESS_KEY,
    BUCKET_CHECK,
    CLOSED_GAP_SUFFIX,
    GAPS_PREFIX,
    HISTORY_PREFIX,
    OPEN_GAP_SUFFIX,
    SUFFIX,
    history_prefix,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Objects are small, so reading one is mostly waiting.
MAX_CONCURRENCY: Final = 16
_DAY_PREFIX: Final = f"{HISTORY_PREFIX}day="
_START_OF_DAY: Final = "000000"
_END_OF_DAY: Final = "235959"
_NAME_PRECISION: Final = timedelta(seconds=1)  # names are enough
_LINE_PRECISION: Final = timedelta(milliseconds=1)  # a line tells no less


@dataclass(frozen=True)
class S3HistoryReader:
    """Reads what `S3HistoryStore` wrote, several objects concurrently."""

    client: "S3Client"
    bucket: str

    def lines(
        self, *, since: date | None = None, until: date | None = None, job_type: str | None = None
    ) -> Iterator[HistoryLine]:
        """Every line of these days, both included. Some lines may repeat."""
        names = (
            name
            for day in self._days()
            if (since is None or day >= since) and (until is None or day <= until)
            for name in self._names(history_prefix(day, job_type))
        )
        return self._read(names)

    def newest(self) -> dict[str, HistoryLine]:
        kept: dict[str, HistoryLine] = {}
        for line in self.lines():
            if is_newer(line, kept.get(line.job_key)):
                kept[line.job_key] = line
        return kept

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None = None, limit: int
    ) -> list[HistoryLine]:
        """The jobs that ended between `since` and `until`, the latest first.

        Reads the newest objects first, and no more than the limit asks for.
        """
        newest: dict[str, HistoryLine] = {}
        ended: list[HistoryLine] = []
        names = iter(self._newest_first(since=since, until=until, job_type=job_type))
        while batch := list(islice(names, MAX_CONCURRENCY)):
            # No unread line is newer than the last line of this object.
            reached = _last_at(batch[-1]) + _NAME_PRECISION
            for line in self._read(batch):
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
        return lines_about(business_id, self.lines(since=since, until=until))

    def open_gaps(self) -> list[HistoryGap]:
        names = list(self._names(GAPS_PREFIX, suffix=""))
        closed = {
            name.removesuffix(CLOSED_GAP_SUFFIX)
            for name in names
            if name.endswith(CLOSED_GAP_SUFFIX)
        }
        opened = (name for name in names if name.endswith(OPEN_GAP_SUFFIX))
        still_open = (one for one in opened if one.removesuffix(OPEN_GAP_SUFFIX) not in closed)
        gaps = (HistoryGap.from_dict(json.loads(self._bytes(name))) for name in still_open)
        return sorted(gaps, key=lambda gap: gap.recorded_at)

    def backfill_progress(self) -> BackfillProgress | None:
        if BACKFILL_PROGRESS_KEY not in self._names(BACKFILL_PROGRESS_KEY, suffix=""):
            return None
        return BackfillProgress.from_dict(json.loads(self._bytes(BACKFILL_PROGRESS_KEY)))

    def _newest_first(
        self, *, since: datetime, until: datetime, job_type: str | None
    ) -> Iterator[str]:
        """The objects of this period, newest first."""
        first, last = since.astimezone(UTC), until.astimezone(UTC)
        day = last.date()
        while day >= first.date():
            folder = history_prefix(day, job_type or None)
            types = [folder] if job_type else self._folders(folder)
            # An object holds lines of one hour.
            after = f"{first:%H}" if day == first.date() else ""
            names = (name for one in types for name in self._names(one, after=f"{one}{after}"))
            wanted = (name for name in names if _first_at(name) <= last)
            yield from sorted(wanted, key=_last_at, reverse=True)
            day -= timedelta(days=1)

    def _days(self) -> Iterator[date]:
        for one in self._folders(_DAY_PREFIX):
            yield date.fromisoformat(one.removeprefix(_DAY_PREFIX).rstrip("/"))

    def _folders(self, prefix: str) -> list[str]:
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, Delimiter="/"
            )
            return [one["Prefix"] for page in pages for one in page.get("CommonPrefixes", [])]

    def _names(self, prefix: str, *, suffix: str = SUFFIX, after: str = "") -> Iterator[str]:
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, StartAfter=after
            )
            names = (one["Key"] for page in pages for one in page.get("Contents", []))
            yield from (name for name in names if name.endswith(suffix))

    def _read(self, names: Iterable[str]) -> Iterator[HistoryLine]:
        """The lines of these objects, with a few objects in memory at a time."""
        waiting = iter(names)
        with ThreadPoolExecutor(max_workers=MAX_CONCURRENCY) as pool:
            while batch := list(islice(waiting, MAX_CONCURRENCY)):
                for body in pool.map(self._bytes, batch):
                    for line in gzip.decompress(body).splitlines():
                        yield HistoryLine.from_dict(json.loads(line))

    def _bytes(self, name: str) -> bytes:
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            return self.client.get_object(Bucket=self.bucket, Key=name)["Body"].read()


@dataclass(frozen=True)
class HistoryFinishedJobs:
    """Lists ended jobs from the history. The rows distinguish finished from failed ones."""

    history: HistoryReader

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None, limit: int
    ) -> list[JobListEntry]:
        lines = self.history.recent(
            since=since, until=until + _LINE_PRECISION, job_type=job_type, limit=limit
        )
        return [JobListEntry(JobKey(line.job_key), line.at) for line in lines]


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
