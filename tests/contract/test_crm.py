"""What any CRM must do when it is read; the fake and the HubSpot adapter are held to the same."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from oncely.domain.answers import NotSent, Unreachable
from oncely.providers import CrmRecord, Gone, Page
from tests.contract.crms import CRMS, Bench, crm_bench
from tests.support.fakes import START
from tests.support.payments import Fault

MINE = "hubspot#4419"


@pytest.fixture(params=CRMS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with crm_bench(request.param) as running:
        yield running


def shown(page: Page | NotSent) -> list[str]:
    assert isinstance(page, Page)
    return [one.record_id for one in page.records]


def all_changed(bench: Bench) -> list[str]:
    page = bench.crm.changed(since=START, after=None)
    found = shown(page)
    while isinstance(page, Page) and page.after is not None:
        page = bench.crm.changed(since=START, after=page.after)
        found += shown(page)
    return found


def test_fetched_contact_has_properties_and_update_time(bench: Bench) -> None:
    record_id = bench.people.add(email="seven@example.com")

    record = bench.crm.fetch(record_id)

    assert isinstance(record, CrmRecord)
    assert (record.record_id, record.updated_at, record.archived) == (record_id, START, False)
    assert record.body["id"] == record_id
    assert record.body["updatedAt"] == "2026-11-16T03:00:00.000Z"
    properties = record.body["properties"]
    assert isinstance(properties, dict)
    assert properties["email"] == "seven@example.com"


def test_update_advances_contact_update_time(bench: Bench) -> None:
    record_id = bench.people.add(email="seven@example.com")
    bench.clock.move(milliseconds=1)

    bench.people.update(record_id, firstname="Grace")

    record = bench.crm.fetch(record_id)
    assert isinstance(record, CrmRecord)
    assert record.updated_at == START + timedelta(milliseconds=1)


@pytest.mark.parametrize("record_id", ["404", "abc", ".", "..", "1?archived=true"])
def test_missing_contact_is_gone(bench: Bench, record_id: str) -> None:
    bench.people.add(email="seven@example.com")

    assert bench.crm.fetch(record_id) == Gone()


def test_archived_contact_is_gone_and_not_listed(bench: Bench) -> None:
    record_id = bench.people.add(oncely_id=MINE)

    bench.people.archive(record_id)

    assert bench.crm.fetch(record_id) == Gone()
    assert bench.crm.find(MINE) == Gone()
    assert bench.crm.page(after=None) == Page((), None)
    assert bench.crm.changed(since=START, after=None) == Page((), None)


def test_pages_list_every_contact_once_in_stable_order(bench: Bench) -> None:
    ids = bench.people.add_contacts(250)

    first = bench.crm.page(after=None)
    assert isinstance(first, Page)
    second = bench.crm.page(after=first.after)
    assert isinstance(second, Page)
    third = bench.crm.page(after=second.after)

    assert shown(first) + shown(second) + shown(third) == ids
    assert isinstance(third, Page)
    assert third.after is None
    assert bench.crm.page(after=first.after) == second


def test_last_page_has_no_cursor_when_full(bench: Bench) -> None:
    bench.people.add_contacts(100)

    pages = [bench.crm.page(after=None), bench.crm.changed(since=START, after=None)]

    assert [len(shown(page)) for page in pages] == [100, 100]
    assert [isinstance(page, Page) and page.after for page in pages] == [None, None]


def test_changed_lists_contacts_updated_at_or_after_time(bench: Bench) -> None:
    old, same, new = bench.people.add_contacts(3)
    bench.clock.move(hours=1)
    since = bench.clock.now()
    bench.people.update(same, firstname="Grace")
    bench.clock.move(hours=1)
    bench.people.update(new, firstname="Ada")

    assert shown(bench.crm.changed(since=since, after=None)) == [same, new]
    assert old not in shown(bench.crm.changed(since=since, after=None))


def test_changed_pages_by_id_without_loss_or_repeat(
    bench: Bench,
) -> None:
    ids = bench.people.add_contacts(250)
    first = bench.crm.changed(since=START, after=None)
    assert isinstance(first, Page)

    bench.clock.move(hours=1)
    bench.people.update(ids[7], firstname="shown already")
    bench.people.update(ids[207], firstname="not shown yet")
    rest = bench.crm.changed(since=START, after=first.after)

    assert shown(first) + shown(rest) == ids[:200]
    assert all_changed(bench) == ids


def test_rejected_token_writes_nothing_and_raises_alarm(bench: Bench) -> None:
    for step in ("push", "fetch", "page", "changed"):
        bench.fails(step, Fault.UNAUTHORIZED)

    answers = [
        bench.crm.push(MINE, {"firstname": "Grace"}),
        bench.crm.fetch("1"),
        bench.crm.page(after=None),
        bench.crm.changed(since=START, after=None),
    ]

    assert all(isinstance(answer, NotSent) and answer.alarm for answer in answers)
    assert bench.writes() == []


def test_rate_limit_returns_retry_after(bench: Bench) -> None:
    for step in ("push", "fetch", "page", "changed"):
        bench.limits_rate(step, seconds=7)

    answers = [
        bench.crm.push(MINE, {"firstname": "Grace"}),
        bench.crm.fetch("1"),
        bench.crm.page(after=None),
        bench.crm.changed(since=START, after=None),
    ]

    waits = [isinstance(answer, NotSent) and answer.retry_after for answer in answers]
    assert waits == [timedelta(seconds=7)] * 4
    assert bench.writes() == []


def test_spent_daily_limit_waits_for_reset_and_raises_alarm(bench: Bench) -> None:
    bench.spends_its_daily_limit()
    bench.clock.move(minutes=30)

    answers = [
        bench.crm.push(MINE, {"firstname": "Grace"}),
        bench.crm.push(MINE, {"firstname": "Grace"}, crm_id="1"),
        bench.crm.fetch("1"),
        bench.crm.page(after=None),
        bench.crm.changed(since=START, after=None),
    ]
    found = bench.crm.find(MINE)

    wait = timedelta(hours=2, minutes=30)  # from 03:30 to 06:00 UTC
    assert all(isinstance(answer, NotSent) and answer.alarm for answer in answers)
    assert [isinstance(one, NotSent) and one.retry_after for one in answers] == [wait] * 5
    assert isinstance(found, Unreachable)
    assert found.retry_after == wait
    assert bench.writes() == []


@pytest.mark.parametrize("fault", [Fault.TIMEOUT_BEFORE, Fault.UNAUTHORIZED])
def test_find_is_unreachable_when_request_fails(bench: Bench, fault: Fault) -> None:
    bench.fails("find", fault)

    assert isinstance(bench.crm.find(MINE), Unreachable)
