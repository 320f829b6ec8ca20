"""Lists and counts: each job once, whatever changes between pages."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import ATTENTION, Event, Status
from oncely.jobs.payment_charge import PaymentCharge
from oncely.operate import job_queries as inspect
from oncely.operate.job_index import JobIndex, JobListEntry, UnreadableRow
from oncely.operate.job_lists import JobFilter, ListCursor
from oncely.operate.own_tables import JOBS
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.unit.job_view_fixtures import KEY, many_reviews, world_with_paid_job


def test_window_that_ends_before_it_begins_is_rejected() -> None:
    inspector, before = many_reviews(1).inspector(), START - timedelta(seconds=1)

    with pytest.raises(InvalidRequestError, match="ends before it begins"):
        inspector.list_page(JobFilter(since=START, until=before))
    with pytest.raises(InvalidRequestError, match="ends before it begins"):
        list(inspector.iter_pages(JobFilter(since=START, until=before)))


def read_all_pages(world: InMemoryStack, *, limit: int, **wanted: Any) -> list[list[JobRow]]:  # noqa: ANN401  # fields of a filter
    pages: list[list[JobRow]] = []
    jobs, cursor = JobFilter(**{"status": "needs_review", **wanted}), None
    while len(pages) < 20:
        page = world.inspector().list_page(jobs, cursor=cursor, limit=limit)
        pages.append([view.job for view in page.jobs])
        if page.cursor is None:
            return pages
        cursor = page.cursor
    raise AssertionError("the list never ends")


@pytest.mark.parametrize("apart", [timedelta(seconds=1), timedelta(0)])
def test_pages_show_every_job_once_despite_equal_times(apart: timedelta) -> None:
    pages = read_all_pages(many_reviews(60, apart=apart), limit=25)

    assert [len(page) for page in pages] == [25, 25, 10]
    assert len({job.job_key for page in pages for job in page}) == 60
    if apart:
        assert pages[0][0].job_key == "payment.charge:order_59"


def test_page_continues_when_last_job_has_left_list() -> None:
    world = many_reviews(30)
    first = world.inspector().list_page(JobFilter(status="needs_review"), limit=10)
    last = first.jobs[-1].job
    gone = last.apply(Event.RESOLVE_FAILED, now=START + timedelta(days=1), actor="ada", reason="x")
    world.store.jobs[last.job_key] = gone

    second = world.inspector().list_page(
        JobFilter(status="needs_review"), limit=10, cursor=first.cursor
    )

    assert second.jobs[0].job.job_key == "payment.charge:order_19"


class _LaggingIndex(JobIndex):
    def by_status(self, statuses: Sequence[Status], **asked: Any) -> Iterator[JobListEntry]:  # noqa: ANN401  # arguments of the port
        return super().by_status(tuple(Status), **asked)


def test_job_with_stale_index_status_is_left_out() -> None:
    world = many_reviews(3)
    key = next(iter(world.store.jobs))
    world.store.jobs[key] = replace(world.store.jobs[key], status=Status.FAILED)
    lagging = world.app(job_index=_LaggingIndex(world.store.client, JOBS)).job_queries

    assert len(lagging.list_page(JobFilter(status="needs_review")).jobs) == 2
    assert [len(page.jobs) for page in lagging.iter_pages(JobFilter(status="needs_review"))] == [2]


def test_list_filters_by_job_type_and_time() -> None:
    world = many_reviews(60)

    pushes = world.inspector().list_page(JobFilter(job_type="sync.push"))
    since, until = (START + timedelta(seconds=seconds) for seconds in (5, 7))

    assert [view.job.job_type for view in pushes.jobs] == ["sync.push"] * 6
    assert len(world.inspector().list_page(JobFilter(since=since, until=until)).jobs) == 3


def test_rare_job_type_costs_page_bounded_number_of_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "MAX_ROWS_READ", 12)
    pages = read_all_pages(many_reviews(60), job_type="sync.push", limit=25)
    assert sum(map(len, pages)) == 6
    assert len(pages) == 5


def test_whole_list_is_returned_page_by_page() -> None:
    pages = list(many_reviews(250).inspector().iter_pages(JobFilter(status="needs_review")))
    assert [len(page.jobs) for page in pages] == [100, 100, 50]
    assert len({view.job.job_key for page in pages for view in page.jobs}) == 250
    assert {page.cursor for page in pages} == {None}


def test_whole_list_of_rare_type_is_cut_with_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "MAX_ENTRIES_SCANNED", 40)
    world = many_reviews(60)

    (none,) = world.inspector().iter_pages(JobFilter(job_type="receipt.send"))
    (some,) = world.inspector().iter_pages(JobFilter(job_type="sync.push"))

    assert none.jobs == ()
    assert len(some.jobs) == 4
    assert none.cursor == some.cursor
    assert (
        len(world.inspector().list_page(JobFilter(job_type="sync.push"), cursor=some.cursor).jobs)
        == 2
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"wanted": JobFilter(status="gone")},
        {"limit": 0},
        {"limit": 101},
        {"cursor": "!"},
        {"cursor": "e30="},
    ],
)
def test_invalid_list_request_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        InMemoryStack().inspector().list_page(**wrong)


def test_in_progress_lists_unresolved_jobs_longest_due_first() -> None:
    world = many_reviews(7)
    for number, (key, status) in enumerate(zip(list(world.store.jobs), Status, strict=True)):
        due_at = START + timedelta(minutes=10 - number)
        world.store.jobs[key] = replace(world.store.jobs[key], status=status, due_at=due_at)

    page = world.inspector().list_page(JobFilter(status="in_progress"))

    assert [view.job.status for view in page.jobs] == [Status.UNKNOWN, Status.STARTED, Status.READY]


def test_pages_of_ready_jobs_show_every_job_once() -> None:
    world = many_reviews(60)
    for number, (key, job) in enumerate(world.store.jobs.items()):
        # Some are due in the same moment.
        due_at = START + timedelta(minutes=number // 7)
        world.store.jobs[key] = replace(job, status=Status.READY, due_at=due_at)

    pages = read_all_pages(world, status="ready", limit=25)

    shown = [job for page in pages for job in page]
    assert (len(pages), len(shown), len({job.job_key for job in shown})) == (3, 60, 60)
    assert [job.due_at for job in shown] == sorted(job.due_at or START for job in shown)


def test_finished_jobs_are_listed_for_last_day() -> None:
    world = world_with_paid_job()
    world.add_order("2")
    world.clock.advance(hours=20)
    world.run(charge_message("2"))
    world.write_history()
    inspector = world.inspector()

    both = inspector.list_page(JobFilter(status="finished"))
    world.clock.advance(hours=10)
    today = inspector.list_page(JobFilter(status="finished"))
    earlier = inspector.list_page(
        JobFilter(status="finished", since=START, until=START + timedelta(hours=1))
    )

    assert [view.job.job_key for view in both.jobs] == [f"{KEY[:-5]}2", KEY]
    assert [view.job.job_key for view in today.jobs] == [f"{KEY[:-5]}2"]
    assert [view.job.job_key for view in earlier.jobs] == [KEY]


def test_pages_of_finished_jobs_show_each_once() -> None:
    world = many_reviews(60)
    for number, (key, job) in enumerate(world.store.jobs.items()):
        status = Status.FINISHED if number % 5 else Status.FAILED
        at = START - timedelta(seconds=number // 7)
        world.store.jobs[key] = replace(job, status=status, updated_at=at, since=None, fence=1)
    world.write_history()

    pages = read_all_pages(world, status="finished", limit=10)

    shown = [job.job_key for page in pages for job in page]
    assert (len(shown), len(set(shown))) == (48, 48)


def test_default_list_has_jobs_that_need_attention() -> None:
    world = many_reviews(7)
    for key, status in zip(list(world.store.jobs), Status, strict=True):
        world.store.jobs[key] = replace(world.store.jobs[key], status=status)
    assert {view.job.status for view in world.inspector().list_page().jobs} == ATTENTION


def test_counts_follow_job_statuses() -> None:
    world = world_with_paid_job()
    (first,) = world.store.jobs
    # As the stream does: an ended job with an unsent receipt would count as in progress.
    world.publisher().publish(first)
    world.add_order("2")
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message("2"))
    world.add_order("3")
    world.payments.declines = True
    world.run(charge_message("3"))

    counts = world.inspector().counts()
    world.clock.advance(days=1)
    tomorrow = world.inspector().counts()

    assert (counts.unknown, counts.pending, counts.needs_review) == (1, 1, 0)
    assert counts.oldest_unresolved_at == world.job("payment.charge:order_2").since
    assert (counts.failed_today, tomorrow.failed_today, tomorrow.unknown) == (1, 0, 1)


def test_counts_of_today_begin_at_midnight_utc() -> None:
    world = InMemoryStack()
    world.payments.declines = True
    midnight = world.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    for order_id, milliseconds in (("1001", -1), ("1002", 0), ("1003", 1)):
        world.clock.time = midnight + timedelta(milliseconds=milliseconds)
        world.add_order(order_id)
        world.run(charge_message(order_id))
    world.clock.time = midnight + timedelta(hours=23, minutes=59, seconds=59, microseconds=5)

    assert world.inspector().counts().failed_today == 2


@pytest.mark.parametrize(
    ("status", "name"), [(Status.NEEDS_REVIEW, "needs_review"), (Status.STARTED, "pending")]
)
def test_count_above_maximum_is_marked_as_more(
    monkeypatch: pytest.MonkeyPatch, status: Status, name: str
) -> None:
    monkeypatch.setattr(inspect, "MAX_COUNT", 10)
    world = many_reviews(20)
    for key, job in list(world.store.jobs.items()):
        world.store.jobs[key] = replace(job, status=status, due_at=START)

    counts = world.inspector().counts()

    assert (getattr(counts, name), counts.truncated) == (10, (name,))


@pytest.mark.parametrize(
    ("due_in", "unknown_for", "oldest"),
    [
        (timedelta(minutes=5), None, None),
        (timedelta(minutes=-5), None, timedelta(minutes=5)),
        (timedelta(minutes=5), timedelta(hours=2), timedelta(hours=2)),
        (timedelta(hours=-3), timedelta(hours=2), timedelta(hours=3)),
    ],
)
def test_oldest_unresolved_is_overdue_or_unknown(
    due_in: timedelta, unknown_for: timedelta | None, oldest: timedelta | None
) -> None:
    world = many_reviews(2)
    now = world.clock.now()
    ready, other = world.store.jobs.values()
    world.store.jobs[ready.job_key] = replace(ready, status=Status.READY, due_at=now + due_in)
    if unknown_for is not None:
        lost = replace(other, status=Status.UNKNOWN, since=now - unknown_for, due_at=now)
        world.store.jobs[other.job_key] = lost

    found = world.inspector().counts().oldest_unresolved_at

    assert found == (None if oldest is None else now - oldest)


def test_counts_are_serialized_by_name() -> None:
    none = InMemoryStack().inspector().counts()
    some = replace(none, pending=1, oldest_unresolved_at=START, truncated=("pending",))

    zero = dict.fromkeys(("needs_review", "unknown", "pending", "failed_today"), 0)
    assert none.to_json() == {**zero, "oldest_unresolved_at": None, "truncated": []}
    since = {"oldest_unresolved_at": "2026-11-16T03:00:00.000Z"}
    assert some.to_json() == {**zero, "pending": 1, **since, "truncated": ["pending"]}


@pytest.mark.parametrize("limit", [None, 1, inspect.MAX_PAGE_SIZE])
def test_page_has_requested_size_or_25_jobs(limit: int | None) -> None:
    asked: Any = {} if limit is None else {"limit": limit}
    assert len(many_reviews(150).inspector().list_page(**asked).jobs) == (limit or 25)


def test_window_of_one_moment_lists_jobs_changed_then() -> None:
    moment = START + timedelta(seconds=5)
    page = many_reviews(10).inspector().list_page(JobFilter(since=moment, until=moment))
    assert [view.job.job_key for view in page.jobs] == ["payment.charge:order_5"]


class _RecordingIndex(JobIndex):
    def get_many(self, keys: Sequence[JobKey]) -> dict[JobKey, JobRow | UnreadableRow]:
        found = super().get_many(keys)
        found.pop(JobKey("payment.charge:order_1"))
        return found


def test_deleted_job_in_stale_index_is_left_out() -> None:
    world = many_reviews(3)
    inspector = world.app(job_index=_RecordingIndex(world.store.client, JOBS)).job_queries
    shown = [
        view.job.job_key for view in inspector.list_page(JobFilter(status="needs_review")).jobs
    ]
    assert shown == ["payment.charge:order_2", "sync.push:order_0"]


def test_cursor_names_only_jobs_shown_at_its_own_time() -> None:
    first, same, last = (JobKey(name) for name in "abc")
    later = JobListEntry(last, START + timedelta(seconds=1))

    both = ListCursor().after(JobListEntry(first, START)).after(JobListEntry(same, START))

    assert both == ListCursor(START, frozenset({first, same}))
    assert both.after(later) == ListCursor(later.at, frozenset({last}))


def test_unreadable_row_hides_no_other_job_of_page() -> None:
    world = many_reviews(3)
    world.store.make_unreadable(JobKey("payment.charge:order_1"))
    inspector = world.inspector()

    page = inspector.list_page(JobFilter(status="needs_review"))
    (only,) = inspector.iter_pages(JobFilter(status="needs_review"))

    assert only == page
    shown: Any = page.to_json()
    readable = [one["job_key"] for one in shown["jobs"]]
    assert readable == ["payment.charge:order_2", "sync.push:order_0"]
    (unreadable,) = shown["unreadable"]
    assert unreadable["job_key"] == "payment.charge:order_1"
    assert "cannot be read" in unreadable["reason"]


def test_contract_that_cannot_describe_row_hides_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with_paid_job()
    world.write_history()
    monkeypatch.setattr(PaymentCharge, "success_summary", lambda job: job.result["no such field"])
    (view,) = world.inspector().list_page(JobFilter(status="finished")).jobs
    assert view.headline == "Done."
