"""What any CRM must do when it is read; the fake and the HubSpot adapter are held to the same."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from oncely.domain.effect_outcomes import LookupFailed, NotSent
from oncely.providers.interfaces import CrmPage, CrmRecord, RecordNotFound
from tests.conformance.crm_harnesses import CRMS, CrmHarness, crm_harness
from tests.support.fakes import START
from tests.support.payments import PaymentFault

MINE = "hubspot#4419"


@pytest.fixture(params=CRMS)
def harness(request: pytest.FixtureRequest) -> Iterator[CrmHarness]:
    with crm_harness(request.param) as running:
        yield running


def record_ids(page: CrmPage | NotSent) -> list[str]:
    assert isinstance(page, CrmPage)
    return [one.record_id for one in page.records]


def list_all_changed(harness: CrmHarness) -> list[str]:
    page = harness.crm.list_changed(since=START, after=None)
    found = record_ids(page)
    while isinstance(page, CrmPage) and page.after is not None:
        page = harness.crm.list_changed(since=START, after=page.after)
        found += record_ids(page)
    return found


def test_fetched_contact_has_properties_and_update_time(harness: CrmHarness) -> None:
    record_id = harness.users.add(email="seven@example.com")

    record = harness.crm.get_contact(record_id)

    assert isinstance(record, CrmRecord)
    assert (record.record_id, record.updated_at, record.archived) == (record_id, START, False)
    assert record.body["id"] == record_id
    assert record.body["updatedAt"] == "2026-11-16T03:00:00.000Z"
    properties = record.body["properties"]
    assert isinstance(properties, dict)
    assert properties["email"] == "seven@example.com"


def test_update_advances_contact_update_time(harness: CrmHarness) -> None:
    record_id = harness.users.add(email="seven@example.com")
    harness.clock.advance(milliseconds=1)

    harness.users.update(record_id, firstname="Grace")

    record = harness.crm.get_contact(record_id)
    assert isinstance(record, CrmRecord)
    assert record.updated_at == START + timedelta(milliseconds=1)


@pytest.mark.parametrize("record_id", ["404", "abc", ".", "..", "1?archived=true"])
def test_missing_contact_is_gone(harness: CrmHarness, record_id: str) -> None:
    harness.users.add(email="seven@example.com")

    assert harness.crm.get_contact(record_id) == RecordNotFound()


def test_archived_contact_is_gone_and_not_listed(harness: CrmHarness) -> None:
    record_id = harness.users.add(oncely_id=MINE)

    harness.users.archive(record_id)

    assert harness.crm.get_contact(record_id) == RecordNotFound()
    assert harness.crm.find_by_external_id(MINE) == RecordNotFound()
    assert harness.crm.list_contacts(after=None) == CrmPage((), None)
    assert harness.crm.list_changed(since=START, after=None) == CrmPage((), None)


def test_pages_list_every_contact_once_in_stable_order(harness: CrmHarness) -> None:
    ids = harness.users.add_contacts(250)

    first = harness.crm.list_contacts(after=None)
    assert isinstance(first, CrmPage)
    second = harness.crm.list_contacts(after=first.after)
    assert isinstance(second, CrmPage)
    third = harness.crm.list_contacts(after=second.after)

    assert record_ids(first) + record_ids(second) + record_ids(third) == ids
    assert isinstance(third, CrmPage)
    assert third.after is None
    assert harness.crm.list_contacts(after=first.after) == second


def test_last_page_has_no_cursor_when_full(harness: CrmHarness) -> None:
    harness.users.add_contacts(100)

    pages = [
        harness.crm.list_contacts(after=None),
        harness.crm.list_changed(since=START, after=None),
    ]

    assert [len(record_ids(page)) for page in pages] == [100, 100]
    assert [isinstance(page, CrmPage) and page.after for page in pages] == [None, None]


def test_changed_lists_contacts_updated_at_or_after_time(harness: CrmHarness) -> None:
    old, same, new = harness.users.add_contacts(3)
    harness.clock.advance(hours=1)
    since = harness.clock.now()
    harness.users.update(same, firstname="Grace")
    harness.clock.advance(hours=1)
    harness.users.update(new, firstname="Ada")

    assert record_ids(harness.crm.list_changed(since=since, after=None)) == [same, new]
    assert old not in record_ids(harness.crm.list_changed(since=since, after=None))


def test_changed_pages_by_id_without_loss_or_repeat(harness: CrmHarness) -> None:
    ids = harness.users.add_contacts(250)
    first = harness.crm.list_changed(since=START, after=None)
    assert isinstance(first, CrmPage)

    harness.clock.advance(hours=1)
    harness.users.update(ids[7], firstname="shown already")
    harness.users.update(ids[207], firstname="not shown yet")
    rest = harness.crm.list_changed(since=START, after=first.after)

    assert record_ids(first) + record_ids(rest) == ids[:200]
    assert list_all_changed(harness) == ids


def test_rejected_token_writes_nothing_and_raises_alarm(harness: CrmHarness) -> None:
    for step in ("upsert_contact", "get_contact", "list_contacts", "list_changed"):
        harness.fail_next(step, PaymentFault.UNAUTHORIZED)

    answers = [
        harness.crm.upsert_contact(MINE, {"firstname": "Grace"}),
        harness.crm.get_contact("1"),
        harness.crm.list_contacts(after=None),
        harness.crm.list_changed(since=START, after=None),
    ]

    assert all(isinstance(answer, NotSent) and answer.credentials_rejected for answer in answers)
    assert harness.writes() == []


def test_rate_limit_returns_retry_after(harness: CrmHarness) -> None:
    for step in ("upsert_contact", "get_contact", "list_contacts", "list_changed"):
        harness.limit_rate(step, seconds=7)

    answers = [
        harness.crm.upsert_contact(MINE, {"firstname": "Grace"}),
        harness.crm.get_contact("1"),
        harness.crm.list_contacts(after=None),
        harness.crm.list_changed(since=START, after=None),
    ]

    waits = [isinstance(answer, NotSent) and answer.retry_after for answer in answers]
    assert waits == [timedelta(seconds=7)] * 4
    assert harness.writes() == []


def test_spent_daily_limit_waits_for_reset_and_raises_alarm(harness: CrmHarness) -> None:
    harness.exhaust_daily_limit()
    harness.clock.advance(minutes=30)

    answers = [
        harness.crm.upsert_contact(MINE, {"firstname": "Grace"}),
        harness.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id="1"),
        harness.crm.get_contact("1"),
        harness.crm.list_contacts(after=None),
        harness.crm.list_changed(since=START, after=None),
    ]
    found = harness.crm.find_by_external_id(MINE)

    wait = timedelta(hours=2, minutes=30)  # from 03:30 to 06:00 UTC
    assert all(isinstance(answer, NotSent) and answer.credentials_rejected for answer in answers)
    assert [isinstance(one, NotSent) and one.retry_after for one in answers] == [wait] * 5
    assert isinstance(found, LookupFailed)
    assert found.retry_after == wait
    assert harness.writes() == []


@pytest.mark.parametrize("fault", [PaymentFault.TIMEOUT_BEFORE, PaymentFault.UNAUTHORIZED])
def test_find_is_unreachable_when_request_fails(harness: CrmHarness, fault: PaymentFault) -> None:
    harness.fail_next("find_by_external_id", fault)

    assert isinstance(harness.crm.find_by_external_id(MINE), LookupFailed)
