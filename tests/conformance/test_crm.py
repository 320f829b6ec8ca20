"""What any CRM must do when it is read or written: the fake and the HubSpot adapter alike."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    LookupFailed,
    NotSent,
    Succeeded,
)
from oncely.providers.interfaces import (
    VERSION_PROPERTY,
    CrmConflict,
    CrmPage,
    CrmRecord,
    RecordNotFound,
)
from oncely.testing.provider_fault import ProviderFault
from tests.conformance.crm_harnesses import CRMS, CrmHarness, crm_harness
from tests.support.fakes import START

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

    for page in (
        harness.crm.list_contacts(after=None),
        harness.crm.list_changed(since=START, after=None),
    ):
        assert isinstance(page, CrmPage)
        assert (len(page.records), page.after) == (100, None)


def test_changed_lists_contacts_updated_at_or_after_time(harness: CrmHarness) -> None:
    _, same, new = harness.users.add_contacts(3)
    harness.clock.advance(hours=1)
    since = harness.clock.now()
    harness.users.update(same, firstname="Grace")
    harness.clock.advance(hours=1)
    harness.users.update(new, firstname="Ada")

    assert record_ids(harness.crm.list_changed(since=since, after=None)) == [same, new]


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


def call_every_step(harness: CrmHarness) -> list[object]:
    return [
        harness.crm.upsert_contact(MINE, {"firstname": "Grace"}),
        harness.crm.get_contact("1"),
        harness.crm.list_contacts(after=None),
        harness.crm.list_changed(since=START, after=None),
    ]


def test_rejected_token_writes_nothing_and_raises_alarm(harness: CrmHarness) -> None:
    for step in ("upsert_contact", "get_contact", "list_contacts", "list_changed"):
        harness.fail_next(step, ProviderFault.UNAUTHORIZED)

    answers = call_every_step(harness)

    assert all(isinstance(answer, NotSent) and answer.credentials_rejected for answer in answers)
    assert harness.writes() == []


def test_rate_limit_returns_retry_after(harness: CrmHarness) -> None:
    for step in ("upsert_contact", "get_contact", "list_contacts", "list_changed"):
        harness.limit_rate(step, seconds=7)

    answers = call_every_step(harness)

    waits = [isinstance(answer, NotSent) and answer.retry_after for answer in answers]
    assert waits == [timedelta(seconds=7)] * 4
    assert harness.writes() == []


def test_spent_daily_limit_waits_for_reset_and_raises_alarm(harness: CrmHarness) -> None:
    harness.exhaust_daily_limit()
    harness.clock.advance(minutes=30)

    by_id = harness.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id="1")
    answers = [by_id, *call_every_step(harness)]
    found = harness.crm.find_by_external_id(MINE)

    wait = timedelta(hours=2, minutes=30)  # from 03:30 to 06:00 UTC
    assert all(isinstance(answer, NotSent) and answer.credentials_rejected for answer in answers)
    assert [isinstance(one, NotSent) and one.retry_after for one in answers] == [wait] * 5
    assert isinstance(found, LookupFailed)
    assert found.retry_after == wait
    assert harness.writes() == []


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.UNAUTHORIZED])
def test_find_is_unreachable_when_request_fails(harness: CrmHarness, fault: ProviderFault) -> None:
    harness.fail_next("find_by_external_id", fault)

    assert isinstance(harness.crm.find_by_external_id(MINE), LookupFailed)


def get_properties(found: object) -> dict[str, object]:
    assert isinstance(found, CrmRecord)
    properties = found.body["properties"]
    assert isinstance(properties, dict)
    return dict(properties)


def test_push_creates_contact_once_then_updates_it(harness: CrmHarness) -> None:
    first = harness.crm.upsert_contact(MINE, {"email": "seven@example.com"})
    changes = {"email": "eight@example.com", VERSION_PROPERTY: "7"}
    again = harness.crm.upsert_contact(MINE, changes)

    assert isinstance(first, Succeeded)
    assert isinstance(again, Succeeded)
    assert first.ref == again.ref == first.result["crm_id"]
    assert harness.writes() == [2]
    found = harness.crm.find_by_external_id(MINE)
    assert isinstance(found, CrmRecord)
    assert found.record_id == first.ref
    assert get_properties(found).items() >= changes.items()


def test_push_by_crm_id_sets_external_id(harness: CrmHarness) -> None:
    record_id = harness.users.add(email="seven@example.com")

    answer = harness.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=record_id)

    assert isinstance(answer, Succeeded)
    assert answer.ref == record_id
    assert harness.writes() == [1]
    assert get_properties(harness.crm.find_by_external_id(MINE))["email"] == "seven@example.com"


def test_archived_contact_is_gone_by_crm_id(harness: CrmHarness) -> None:
    record_id = harness.users.add(email="seven@example.com")
    harness.users.archive(record_id)

    answer = harness.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=record_id)

    assert answer == RecordNotFound()
    assert harness.writes() == [0]
    assert harness.crm.find_by_external_id(MINE, crm_id=record_id) == RecordNotFound()


def test_push_conflict_names_contact_with_same_external_id(harness: CrmHarness) -> None:
    first = harness.crm.upsert_contact(MINE, {"firstname": "Grace"})
    other = harness.users.add(email="seven@example.com")

    answer = harness.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=other)

    assert isinstance(first, Succeeded)
    assert isinstance(answer, CrmConflict)
    assert answer.record_id == first.ref
    assert harness.writes() == [1, 0]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("by_its_own_id", [False, True])
def test_push_conflict_names_contact_with_same_email(
    harness: CrmHarness, *, by_its_own_id: bool, named: bool
) -> None:
    harness.set_reports_conflicting_property(named)
    holder = harness.users.add(email="seven@example.com")
    crm_id = harness.users.add(email="eight@example.com") if by_its_own_id else None

    answer = harness.crm.upsert_contact(MINE, {"email": "seven@example.com"}, crm_id=crm_id)

    assert isinstance(answer, CrmConflict)
    assert answer.record_id == holder
    assert answer.properties == ({"email"} if named else set())
    assert sum(harness.writes()) == 0


@pytest.mark.parametrize("external_id", ["shop#7", None])
def test_find_by_crm_id_returns_external_id_and_email(
    harness: CrmHarness, external_id: str | None
) -> None:
    link = {"oncely_id": external_id} if external_id else {}
    record_id = harness.users.add(email="seven@example.com", **link)

    found = harness.crm.find_by_external_id(MINE, crm_id=record_id)

    assert isinstance(found, CrmRecord)
    assert (found.record_id, found.external_id) == (record_id, external_id)
    assert get_properties(found)["email"] == "seven@example.com"


def test_archived_contact_frees_its_email_and_external_id(harness: CrmHarness) -> None:
    harness.users.archive(harness.users.add(email="seven@example.com", oncely_id=MINE))

    assert isinstance(harness.crm.upsert_contact(MINE, {"email": "seven@example.com"}), Succeeded)


@pytest.mark.parametrize("by_its_own_id", [False, True])
def test_unknown_property_is_declined(harness: CrmHarness, *, by_its_own_id: bool) -> None:
    crm_id = harness.users.add(email="seven@example.com") if by_its_own_id else None

    answer = harness.crm.upsert_contact(MINE, {"no_such_property": "1"}, crm_id=crm_id)

    assert isinstance(answer, Declined)
    assert answer.code == "VALIDATION_ERROR"
    assert sum(harness.writes()) == 0


@pytest.mark.parametrize("by_its_own_id", [False, True])
@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_push_without_reply_is_ambiguous_until_lookup(
    harness: CrmHarness, fault: ProviderFault, *, by_its_own_id: bool
) -> None:
    crm_id = harness.users.add(email="seven@example.com") if by_its_own_id else None
    harness.fail_next("upsert_contact", fault)

    answer = harness.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=crm_id)

    assert isinstance(answer, Ambiguous)
    happened = fault is ProviderFault.TIMEOUT_AFTER
    found = harness.crm.find_by_external_id(MINE)
    assert isinstance(found, CrmRecord if happened else RecordNotFound)
    assert sum(harness.writes()) == int(happened)


@pytest.mark.parametrize("external_id", [MINE, "a/b?c=d&e", "käse 100%", "x@example.com"])
def test_external_id_may_hold_any_characters(harness: CrmHarness, external_id: str) -> None:
    answer = harness.crm.upsert_contact(external_id, {"firstname": "Grace"})

    found = harness.crm.find_by_external_id(external_id)

    assert isinstance(answer, Succeeded)
    assert isinstance(found, CrmRecord)
    assert found.record_id == answer.ref


ODD_IDS: list[tuple[str, str | None]] = [(one, None) for one in (".", "..", "%2e%2e", "a/../b", "")]
ODD_IDS += [(MINE, one) for one in (".", "..", "7/associations", "7?archived=true", "abc")]


@pytest.mark.parametrize(("external_id", "crm_id"), ODD_IDS)
def test_id_that_changes_path_is_anomalous(
    harness: CrmHarness, external_id: str, crm_id: str | None
) -> None:
    pushed = harness.crm.upsert_contact(external_id, {"firstname": "Grace"}, crm_id=crm_id)
    found = harness.crm.find_by_external_id(external_id, crm_id=crm_id)

    assert (type(pushed), type(found)) == (Anomalous, Anomalous)
    assert harness.writes() == []
