"""The history returns what was written, each line once."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.history.archive import HistoryArchive
from oncely.history.gaps import BackfillProgress, HistoryGap
from oncely.history.lines import HistoryLine, HistoryRecordType, backfill_line
from oncely.history.sources import RowScan
from oncely.operate.job_lists import JobLists
from tests.conformance.archive_harness import ArchiveHarness
from tests.support.dynamo import DynamoFixture
from tests.unit.samples import make_job

NOON = datetime(2026, 5, 17, 12, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def history(bucket: ArchiveHarness) -> HistoryArchive:
    return HistoryArchive(bucket.objects)


def line(order: int, at: datetime, status: Status = Status.FINISHED, **more: Any) -> HistoryLine:  # noqa: ANN401  # fields
    key = JobKey(f"{more.get('job_type', 'payment.charge')}:order_{order}")
    about: dict[str, Any] = {"job_key": key, "updated_at": at, "message": {"order_id": str(order)}}
    job = make_job(status=status, **about, **more)
    return replace(backfill_line(job, generation="table-1"), record=HistoryRecordType.CHANGE)


def put(history: HistoryArchive, *lines: HistoryLine, name: str = "") -> None:
    first, last = (place(one.at for one in lines) for place in (min, max))
    clock = f"{first:%H%M%S}-{last:%H%M%S}-{uuid4().hex[:8]}"
    history.put(first.date(), lines[0].job_type, name or clock, lines)


def test_newest_line_of_each_job_is_found_across_days(history: HistoryArchive) -> None:
    old = line(1, NOON - timedelta(days=3), Status.STARTED, version=2)
    new = line(1, NOON, version=3)
    other = line(2, NOON)
    for one in (new, other, old, new):
        put(history, one)

    assert history.newest() == {old.job_key: new, other.job_key: other}


def test_empty_history_is_empty(history: HistoryArchive) -> None:
    assert history.newest() == {}
    assert history.recent(since=NOON - 9 * HOUR, until=NOON, limit=5) == []
    assert history.open_gaps() == []
    assert history.backfill_progress() is None


def test_object_with_same_name_is_replaced(history: HistoryArchive) -> None:
    put(history, line(1, NOON), line(2, NOON), name="a")
    put(history, line(3, NOON), name="a")
    assert list(history.newest()) == ["payment.charge:order_3"]


def test_recent_jobs_are_newest_first_and_limited(history: HistoryArchive) -> None:
    for hours in range(40):
        put(history, line(hours, NOON - hours * HOUR))
    found = history.recent(since=NOON - 72 * HOUR, until=NOON + HOUR, limit=3)
    assert [one.job_key[-1] for one in found] == ["0", "1", "2"]


def test_recent_jobs_are_filtered_by_time_and_job_type(history: HistoryArchive) -> None:
    inside = line(1, NOON)
    receipt = line(4, NOON, job_type="receipt.send")
    for one in (inside, line(2, NOON - HOUR), line(3, NOON + HOUR), receipt):
        put(history, one)

    window: dict[str, Any] = {"since": NOON - HOUR / 2, "until": NOON + HOUR / 2, "limit": 9}

    assert history.recent(**window, job_type="payment.charge") == [inside]
    keys = {one.job_key for one in history.recent(**window)}
    assert keys == {"payment.charge:order_1", "receipt.send:order_4"}


def test_recent_jobs_include_partial_hour_and_backfill(history: HistoryArchive) -> None:
    since = NOON + HOUR / 2
    early, late = line(1, NOON + HOUR / 60), line(2, NOON + HOUR * 0.9)
    put(history, early, late)
    filled = line(3, NOON + 3 * HOUR)
    put(history, filled, name="backfill-20260601T000000-000000")

    assert history.recent(since=since, until=NOON + 9 * HOUR, limit=9) == [filled, late]


def test_recent_jobs_cross_midnight(history: HistoryArchive) -> None:
    midnight = datetime(2026, 5, 18, tzinfo=UTC)
    before, after = line(1, midnight - HOUR / 60), line(2, midnight + HOUR / 60)
    put(history, before)
    put(history, after)
    assert history.recent(since=midnight - HOUR, until=midnight + HOUR, limit=9) == [after, before]


def test_contradicted_job_is_not_recent(history: HistoryArchive) -> None:
    put(history, line(1, NOON, version=3))
    put(history, line(1, NOON + HOUR, Status.NEEDS_REVIEW, version=4))
    assert history.recent(since=NOON - HOUR, until=NOON + 2 * HOUR, limit=9) == []
    assert len(history.recent(since=NOON - HOUR, until=NOON + HOUR, limit=9)) == 1


def test_recent_jobs_are_sorted_across_overlapping_objects(history: HistoryArchive) -> None:
    """Four shards write concurrently: an object that began earlier may have the latest end."""
    many = [line(order, NOON + timedelta(seconds=order)) for order in range(80)]
    for shard in range(40):
        put(history, *many[shard::40])

    found = history.recent(since=NOON, until=NOON + HOUR, limit=2)
    assert [one.job_key for one in found] == ["payment.charge:order_79", "payment.charge:order_78"]


def test_finished_list_continues_from_shared_timestamp(history: HistoryArchive) -> None:
    for order in range(4):
        put(history, line(order, NOON + (order // 2) * HOUR))
    ports: Any = SimpleNamespace(history=history)
    finished = JobLists(ports)
    window: dict[str, Any] = {"statuses": (Status.FINISHED,), "since": NOON, "limit": 9}

    everything = list(finished.entries(until=NOON + HOUR, **window))
    rest = list(finished.entries(until=NOON, **window))

    assert [one.at for one in everything] == [NOON + HOUR] * 2 + [NOON] * 2
    assert {one.job_key for one in rest} == {"payment.charge:order_0", "payment.charge:order_1"}


def test_gap_is_open_until_it_is_closed(history: HistoryArchive) -> None:
    first = HistoryGap(name="one", recorded_at=NOON, first_at=NOON - 22 * HOUR, records=7)
    second = HistoryGap(name="two", recorded_at=NOON - HOUR)
    for gap in (first, second, first):
        history.record_gap(gap)
    assert history.open_gaps() == [second, first]

    history.close_gap(second, at=NOON)
    history.record_gap(second)

    assert history.open_gaps() == [first]


def test_backfill_progress_is_saved(history: HistoryArchive) -> None:
    progress = BackfillProgress(generation="table-1", started_at=NOON, after="payment.charge:1")
    history.save_backfill(replace(progress, after=None))
    history.save_backfill(progress)
    assert history.backfill_progress() == progress


def test_scan_reads_every_job_and_resumes_after_key(dynamo: DynamoFixture) -> None:
    store, scan = dynamo.store(), RowScan(dynamo.client, dynamo.jobs_table)
    keys = {JobKey(f"payment.charge:order_{number}") for number in range(5)}
    for key in keys:
        store.create(make_job(job_key=key))
    broken = {"job_key": {"S": "sync.push:broken"}, "fence": {"N": "1"}}
    forged = {"job_key": {"S": "sync.push:forged"}}
    for bad in ({"job_key": {"S": "deployment:identity"}}, broken, forged):
        dynamo.client.put_item(TableName=dynamo.jobs_table, Item=bad)

    pages = list(scan.pages())

    found = [job.job_key for page in pages for job in page.jobs]
    assert sorted(found) == sorted(keys)
    assert [one for page in pages for one in page.unreadable] == [("sync.push:broken", None)]
    assert [job.job_key for page in scan.pages(after=found[1]) for job in page.jobs] == found[2:]


def test_lines_are_filtered_by_day_and_found_by_any_id(history: HistoryArchive) -> None:
    paid = line(1, NOON, subject="18452", provider_ref="pi_1", customer_id="customer_1")
    for one in (paid, line(2, NOON - timedelta(days=2)), line(3, NOON + timedelta(days=2))):
        put(history, one)
        put(history, one)

    day = date(2026, 5, 17)
    for text in ("18452", "pi_1", "customer_1", "1", paid.job_key):
        assert history.about(text) == [paid]
    assert history.about("18452", since=day, until=day) == [paid]
    assert history.about("18452", until=day - timedelta(days=1)) == []
    assert history.about("18452", since=day + timedelta(days=1)) == []
