"""A backfill writes a line for every row, resumes where it stopped, and closes gaps."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncely.core.errors import UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.history.archive import HistoryArchive
from oncely.history.gaps import BackfillProgress, HistoryGap
from oncely.history.lines import HistoryRecordType
from oncely.history.sources import RowPage
from oncely.history.writer import Backfill, BackfillResult
from tests.support.fakes import FakeClock
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.samples import NOW, make_job

TABLE = "table-1"
DAY = timedelta(days=1)


@dataclass
class FakeScan:
    """Two rows a page; it may break before a page."""

    rows: list[JobRow]
    fails_before: int | None = None
    unreadable: tuple[tuple[str, int | None], ...] = ()

    def pages(self, *, after: str | None = None) -> Iterator[RowPage]:
        keys = [row.job_key for row in self.rows]
        first = 0 if after is None else keys.index(JobKey(after)) + 1
        for start in range(first, len(self.rows), 2):
            if self.fails_before == start:
                raise UnavailableError("DynamoDB gave no answer")
            part = self.rows[start : start + 2]
            last = start + 2 >= len(self.rows)
            yield RowPage(
                jobs=tuple(part),
                unreadable=self.unreadable if last else (),
                after=None if last else part[-1].job_key,
            )


def make_rows(count: int) -> list[JobRow]:
    keys = [JobKey(f"payment.charge:order_{number}") for number in range(count)]
    return [make_job(job_key=key, updated_at=NOW - age * DAY) for age, key in enumerate(keys)]


@pytest.fixture
def history() -> HistoryArchive:
    return InMemoryStack().history


def make_backfill(history: HistoryArchive, scan: FakeScan, *, now: datetime = NOW) -> Backfill:
    world = InMemoryStack(clock=FakeClock(now))
    app = world.app(row_scan=scan, history=history)
    return replace(app.backfill, max_buffered_lines=2)


def run(history: HistoryArchive, scan: FakeScan) -> BackfillResult:
    return make_backfill(history, scan).run(generation=TABLE)


def keys(history: HistoryArchive) -> list[str]:
    return sorted(key[-1] for key in history.newest())


@pytest.mark.parametrize("count", [0, 1, 2, 5, 6])
def test_every_row_gets_line(history: HistoryArchive, count: int) -> None:
    done = run(history, FakeScan(make_rows(count)))
    assert keys(history) == [str(number) for number in range(count)]
    assert {line.record for line in history.newest().values()} <= {HistoryRecordType.BACKFILL}
    assert (done.progress.rows, done.progress.lines, done.progress.done) == (count, count, True)


def test_forged_row_gets_no_line(history: HistoryArchive) -> None:
    run(history, FakeScan([replace(make_rows(1)[0], fence=0)]))
    assert keys(history) == []


def test_line_is_stored_under_day_of_its_change(history: HistoryArchive) -> None:
    run(history, FakeScan(make_rows(3)))
    for day in [(NOW - age * DAY).date() for age in range(3)]:
        assert [line.at.date() for line in history.lines(since=day, until=day)] == [day]


def test_unreadable_row_is_recorded(history: HistoryArchive) -> None:
    run(history, FakeScan(make_rows(1), unreadable=(("payment.charge:bad", 4),)))
    assert history.newest()["payment.charge:bad"].record is HistoryRecordType.UNREADABLE


def test_interrupted_scan_resumes_and_closes_only_older_gaps(history: HistoryArchive) -> None:
    history.record_gap(HistoryGap(name="old", recorded_at=NOW - DAY))
    scan = FakeScan(make_rows(6), fails_before=4)
    with pytest.raises(UnavailableError):
        run(history, scan)
    assert [gap.name for gap in history.open_gaps()] == ["old"]
    history.record_gap(HistoryGap(name="new", recorded_at=NOW + timedelta(seconds=1)))

    late = make_backfill(history, FakeScan(make_rows(6)), now=NOW + DAY)
    done = late.run(generation=TABLE)

    assert keys(history) == list("012345")
    assert done.progress.rows == 6
    # Rows that the first part read had not seen what the second gap lost.
    assert [gap.name for gap in done.closed] == ["old"]
    assert [gap.name for gap in history.open_gaps()] == ["new"]


@pytest.mark.parametrize("earlier", [{"generation": "table-2"}, {"rows_from": NOW}, {"done": True}])
def test_scan_starts_over_when_saved_progress_does_not_match(
    history: HistoryArchive, earlier: dict[str, Any]
) -> None:
    saved = BackfillProgress(generation=TABLE, started_at=NOW, after="payment.charge:order_1")
    history.save_backfill(replace(saved, **earlier))
    run(history, FakeScan(make_rows(4)))
    assert keys(history) == list("0123")


def test_only_rows_changed_since_start_are_written(history: HistoryArchive) -> None:
    gap = HistoryGap(name="gap", recorded_at=NOW, first_at=NOW - 2 * DAY)
    history.record_gap(gap)
    service = make_backfill(history, FakeScan(make_rows(6)))

    done = service.run(generation=TABLE, rows_from=NOW - DAY)
    assert (keys(history), done.closed) == (["0", "1"], ())
    done = service.run(generation=TABLE, rows_from=NOW - 3 * DAY)

    assert (keys(history), done.closed) == (list("0123"), (gap,))


def test_dry_run_writes_nothing(history: HistoryArchive) -> None:
    gap = HistoryGap(name="gap", recorded_at=NOW - DAY)
    history.record_gap(gap)
    seen: list[BackfillProgress] = []

    backfill = make_backfill(history, FakeScan(make_rows(5)))
    done = backfill.run(generation=TABLE, dry_run=True, report=seen.append)

    assert (history.newest(), history.backfill_progress()) == ({}, None)
    assert history.open_gaps() == [gap]
    assert (done.progress.lines, done.closed) == (5, (gap,))
    assert [one.rows for one in seen] == [2, 4, 5]
