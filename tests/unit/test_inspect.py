"""What people read: one search box, lists with pages, one job in plain words, counts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.domain.errors import InvalidRequestError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.repairs import Repair
from oncely.domain.text import masked
from oncely.ports import Listed
from oncely.services import inspect
from oncely.services.inspect import Found
from oncely.testing.memory import MemoryJobFinder
from tests.support.fakes import START
from tests.support.payments import Fault
from tests.support.world import World, charge

KEY = JobKey("payment.charge:order_18452")


def paid(order_id: str = "18452", **order: object) -> World:
    world = World()
    world.add_order(order_id, **order)
    world.run(charge(order_id))
    return world


def ways(found: Found) -> list[tuple[str, str | None]]:
    return [(view.job.job_key, view.found_by) for view in found.jobs]


@pytest.mark.parametrize("text", ["18452", "#18452", "order_18452", "  18452\n", "# 18452"])
def test_an_order_is_found_however_it_is_written(text: str) -> None:
    assert ways(paid().inspector().find(text)) == [(KEY, "order")]


@pytest.mark.parametrize("order_id", ["order_18452", "#18452"])
@pytest.mark.parametrize("text", ["18452", "#18452", "order_18452"])
def test_a_shop_that_writes_its_ids_in_full_is_understood_too(order_id: str, text: str) -> None:
    found = paid(order_id).inspector().find(text)

    assert [view.job.subject for view in found.jobs] == [order_id]


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("payment.charge:order_18452", "job key"),
        ("customer_7", "customer"),
        ("pi_1", "provider reference"),
    ],
)
def test_one_box_finds_a_job_in_every_way(text: str, way: str) -> None:
    assert ways(paid().inspector().find(text)) == [(KEY, way)]


@pytest.mark.parametrize("text", ["1845", "18452 OR 1=1", "payment.charge:", "x" * 5000, "\ud800"])
def test_what_is_nobodys_id_finds_nothing(text: str) -> None:
    assert paid().inspector().find(text).jobs == ()


def test_an_empty_box_is_told_what_to_type() -> None:
    with pytest.raises(InvalidRequestError, match="type an order"):
        World().inspector().find("  ")


def test_jobs_are_found_the_newest_first_and_each_once() -> None:
    world = paid()
    world.clock.move(minutes=1)
    world.run({"job": "receipt.send", "v": 1, "order_id": "18452"})

    found = world.inspector().find("18452")

    assert [view.job.job_type for view in found.jobs] == ["receipt.send", "payment.charge"]
    assert len(world.inspector().find("customer_7").jobs) == 2


@pytest.mark.parametrize("text", ["18452", "#18452", KEY])
def test_an_expired_job_is_answered_from_the_archive(text: str) -> None:
    world = paid()
    world.publisher().publish(KEY)
    world.store.expire(KEY)

    (view,) = world.inspector().find(text).jobs

    assert (view.archived, view.job.status) == (True, Status.FINISHED)
    assert "Charged once: 12.50 EUR (ch_pi_1)" in view.headline
    assert not any(one.allowed for one in view.repairs)
    shown = world.inspector().show(KEY)
    assert shown is not None
    assert shown.archived


def test_a_second_attempt_is_found_in_the_archive_behind_the_first() -> None:
    world = World()
    world.add_order()
    world.payments.declines = True
    world.run(charge())
    world.payments.declines = False
    world.run(charge(attempt=2))
    for key in (KEY, JobKey(f"{KEY}:2")):
        world.publisher().publish(key)
        world.store.expire(key)

    assert {view.job.job_key for view in world.inspector().find("18452").jobs} == {
        KEY,
        f"{KEY}:2",
    }


def test_an_expired_attempt_is_found_though_the_one_before_it_has_a_row() -> None:
    world = World()
    world.add_order()
    world.payments.declines = True
    world.run(charge())
    world.payments.declines = False
    world.run(charge(attempt=2))
    second = JobKey(f"{KEY}:2")
    world.publisher().publish(second)
    world.store.expire(second)

    assert {view.job.job_key for view in world.inspector().find("18452").jobs} == {KEY, second}


def test_a_window_that_ends_before_it_begins_is_said_so() -> None:
    inspector, before = many(1).inspector(), START - timedelta(seconds=1)

    with pytest.raises(InvalidRequestError, match="ends before it begins"):
        inspector.page(since=START, until=before)
    with pytest.raises(InvalidRequestError, match="ends before it begins"):
        list(inspector.every(since=START, until=before))


def test_an_archive_that_fails_is_said_so_and_the_table_still_answers() -> None:
    world = paid()
    world.archive.broken = True

    found = world.inspector().find("18452")

    assert len(found.jobs) == 1
    assert found.trouble is not None
    assert "S3 gave no answer" in found.trouble


def many(number: int, *, apart: timedelta = timedelta(seconds=1)) -> World:
    world = World()
    for index in range(number):
        at = START + apart * index
        key = JobKey(f"payment.charge:order_{index}")
        world.store.jobs[key] = Job(
            job_key=key,
            job_type="payment.charge" if index % 10 else "sync.push",
            status=Status.NEEDS_REVIEW,
            message={},
            created_at=at,
            updated_at=at,
            since=at,
        )
    return world


def read_on(world: World, **asked: Any) -> list[list[JobKey]]:  # noqa: ANN401  # arguments of a page
    pages: list[list[JobKey]] = []
    cursor: str | None = None
    while len(pages) < 20:
        page = world.inspector().page(status="needs_review", cursor=cursor, **asked)
        pages.append([view.job.job_key for view in page.jobs])
        cursor = page.cursor
        if cursor is None:
            return pages
    raise AssertionError("the list never ends")


@pytest.mark.parametrize("apart", [timedelta(seconds=1), timedelta(0)])
def test_pages_show_every_job_once_though_many_changed_in_the_same_moment(
    apart: timedelta,
) -> None:
    pages = read_on(many(60, apart=apart), limit=25)

    shown = [key for page in pages for key in page]
    assert [len(page) for page in pages] == [25, 25, 10]
    assert len(set(shown)) == 60
    if apart:
        assert shown[0] == "payment.charge:order_59"


def test_a_page_goes_on_where_the_last_ended_though_a_job_left_the_list_meanwhile() -> None:
    world = many(30)
    first = world.inspector().page(status="needs_review", limit=10)
    last = first.jobs[-1].job
    gone = last.apply(Event.RULE_FAILED, now=START + timedelta(days=1), actor="ada", reason="x")
    world.store.jobs[last.job_key] = gone

    second = world.inspector().page(status="needs_review", limit=10, cursor=first.cursor)

    assert second.jobs[0].job.job_key == "payment.charge:order_19"


class _Lagging(MemoryJobFinder):
    """An index that still shows everything where it was."""

    def listed(self, statuses: Sequence[Status], **asked: Any) -> Iterator[Listed]:  # noqa: ANN401  # arguments of the port
        return super().listed(tuple(Status), **asked)


def test_a_job_that_the_index_still_shows_in_its_former_list_is_left_out() -> None:
    world = many(3)
    key = next(iter(world.store.jobs))
    world.store.jobs[key] = replace(world.store.jobs[key], status=Status.FAILED)
    lagging = replace(world.inspector(), finder=_Lagging(world.store))

    assert len(lagging.page(status="needs_review").jobs) == 2
    assert [len(page.jobs) for page in lagging.every(status="needs_review")] == [2]


def test_a_list_can_be_of_one_job_type_and_a_time() -> None:
    world = many(60)

    pushes = world.inspector().page(job_type="sync.push")
    some = world.inspector().page(
        since=START + timedelta(seconds=5), until=START + timedelta(seconds=7)
    )

    assert {view.job.job_type for view in pushes.jobs} == {"sync.push"}
    assert len(pushes.jobs) == 6
    assert len(some.jobs) == 3


def test_a_rare_job_type_costs_a_page_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "MOST_READ", 12)

    pages = read_on(many(60), job_type="sync.push", limit=25)

    assert sum(map(len, pages)) == 6
    assert len(pages) == 5


def test_a_whole_list_is_given_page_by_page_and_its_end_is_known() -> None:
    pages = list(many(250).inspector().every(status="needs_review"))

    assert [len(page.jobs) for page in pages] == [100, 100, 50]
    assert len({view.job.job_key for page in pages for view in page.jobs}) == 250
    assert {page.cursor for page in pages} == {None}


def test_a_whole_list_of_a_type_that_there_is_not_ends_and_says_that_it_was_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inspect, "MOST_LOOKED_AT", 40)
    world = many(60)

    (none,) = world.inspector().every(job_type="receipt.send")
    (some,) = world.inspector().every(job_type="sync.push")

    assert none.jobs == ()
    assert len(some.jobs) == 4
    assert none.cursor == some.cursor
    rest = world.inspector().page(job_type="sync.push", cursor=some.cursor)
    assert len(rest.jobs) == 2


@pytest.mark.parametrize(
    "wrong", [{"status": "gone"}, {"limit": 0}, {"limit": 101}, {"cursor": "!"}, {"cursor": "e30="}]
)
def test_a_list_that_cannot_be_given_is_refused_with_a_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        World().inspector().page(**wrong)


def test_in_progress_holds_what_the_machine_still_has_to_end() -> None:
    world = many(6)
    for key, status in zip(list(world.store.jobs), Status, strict=True):
        world.store.jobs[key] = replace(world.store.jobs[key], status=status)

    page = world.inspector().page(status="in_progress")

    assert {view.job.status for view in page.jobs} == {
        Status.READY,
        Status.STARTED,
        Status.UNKNOWN,
    }


def test_counts_tell_how_things_stand_today() -> None:
    world = paid()
    world.add_order("2")
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge("2"))

    counts = world.inspector().counts()
    world.clock.move(days=1)
    tomorrow = world.inspector().counts()

    assert (counts.done_today, counts.pending, counts.needs_review) == (1, 1, 0)
    assert counts.oldest_unresolved_at == world.job("payment.charge:order_2").created_at
    assert (tomorrow.done_today, tomorrow.pending) == (0, 1)


def test_a_count_that_is_too_large_says_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "MOST_COUNTED", 10)

    counts = many(20).inspector().counts()

    assert (counts.needs_review, counts.more) == (10, ("needs_review",))


def test_the_first_sentence_says_whether_the_customer_was_charged() -> None:
    declined, unknown = World(), World()
    for world in (declined, unknown):
        world.add_order()
    declined.payments.declines = True
    unknown.payments.fails("execute", Fault.TIMEOUT_BEFORE)

    told = []
    for world in (declined, unknown):
        world.run(charge())
        view = world.inspector().show(KEY)
        assert view is not None
        told.append(view.headline)

    assert told[0].startswith("Not charged: ")
    # What the connection said is told further down: it answers nobody's question.
    assert told[1] == "Not known yet whether it was charged: the provider is asked."


def test_a_charge_that_took_long_is_told_in_one_sentence_and_a_timeline() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_BEFORE)
    world.run(charge())
    world.clock.move(minutes=1)
    world.until_quiet(KEY)

    view = world.inspector().show(KEY)

    assert view is not None
    told = view.as_json()
    assert told["headline"] == "Charged once: 12.50 EUR (ch_pi_1). It took 2 tries."
    assert (told["status_words"], told["amount_words"]) == ("done", "12.50 EUR")
    assert (told["subject"], told["customer_id"]) == ("18452", "customer_7")
    timeline: Any = told["timeline"]
    assert [line["event"] for line in timeline][:3] == ["claim", "keep", "lose"]
    assert [line["event"] for line in timeline][-1] == "confirm"
    assert sorted(line["at"] for line in timeline) == [line["at"] for line in timeline]
    assert told["next_look"] is None


def test_a_list_is_short_and_one_job_is_whole() -> None:
    (view,) = paid().inspector().find("18452").jobs

    short, whole = view.as_short_json(), view.as_json()

    assert short["found_by"] == "order"
    assert set(whole) - set(short) == {"timeline", "repairs", "contract", "message", "result"}
    assert str(whole["contract"]).startswith("payment.charge (queue payments)")


def test_addresses_in_messages_and_results_are_masked_and_names_of_people_are_not() -> None:
    world = World()
    record = {
        "id": "4419",
        "updatedAt": "2026-11-16T03:00:00Z",
        "properties": {"email": "eve@x.io"},
    }
    message = {"job": "sync.contact", "v": 1, "source": "hubspot", "source_id": "4419"}
    world.run({**message, "event_id": "e1", "record": record})
    (key,) = world.store.jobs
    job = world.job(key)
    noted = job.apply(
        Event.NOTE, now=START, actor="ada@example.com", reason="bob@example.com called"
    )
    world.store.jobs[key] = noted

    view = world.inspector().show(key)

    assert view is not None
    text = str(view.as_json())
    assert "eve@x.io" not in text
    assert "e***@x.io" in text
    assert "bob@example.com" not in text
    assert "ada@example.com" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("write to ada@example.com, please", "write to a***@example.com, please"),
        ("mailto:ada.b+c@example.com", "mailto:a***@example.com"),
        ("<ä@exämple.org>", "<ä***@exämple.org>"),
        ("no address", "no address"),
        ("hubspot#4419", "hubspot#4419"),
    ],
)
def test_masking(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_masking_a_huge_text_takes_no_longer_than_reading_it() -> None:
    assert masked("a" * 300_000) == "a" * 300_000


def test_a_job_of_a_type_that_is_gone_is_still_shown() -> None:
    world = many(1)
    (key,) = world.store.jobs
    world.store.jobs[key] = replace(world.store.jobs[key], job_type="old.thing")

    (view,) = world.inspector().page(status="needs_review").jobs

    assert view.contract is None
    assert {one.repair for one in view.repairs if one.allowed} == {Repair.FINISH, Repair.FAIL}
