"""What any CRM must do when it is read or written: HubSpot's client, over its model."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    LookupFailed,
    NotSent,
    Succeeded,
)
from oncely.providers.interfaces import (
    CrmConflict,
    CrmPage,
    CrmRecord,
    RecordNotFound,
)
from tests.conformance.crm_harnesses import CONNECTIONS, CrmHarness, crm_harness
from tests.support.fakes import START
from tests.support.provider_fault import ProviderFault

MINE = "hubspot#4419"


@pytest.fixture(params=CONNECTIONS)
def rig(request: pytest.FixtureRequest) -> Iterator[CrmHarness]:
    with crm_harness(request.param) as running:
        yield running


def record_ids(page: CrmPage | NotSent) -> list[str]:
    assert isinstance(page, CrmPage)
    return [one.record_id for one in page.records]


def list_all_changed(rig: CrmHarness) -> list[str]:
    page = rig.crm.list_changed(since=START, after=None)
    found = record_ids(page)
    while isinstance(page, CrmPage) and page.after is not None:
        page = rig.crm.list_changed(since=START, after=page.after)
        found += record_ids(page)
    return found


def test_fetched_contact_has_properties_and_update_time(rig: CrmHarness) -> None:
    record_id = rig.users.add(email="seven@example.com")

    record = rig.crm.get_contact(record_id)
    assert isinstance(record, CrmRecord)
    assert (record.record_id, record.updated_at, record.archived) == (record_id, START, False)
    assert record.body["id"] == record_id
    assert record.body["updatedAt"] == "2026-11-16T03:00:00.000Z"
    properties = record.body["properties"]
    assert isinstance(properties, dict)
    assert properties["email"] == "seven@example.com"


def test_update_advances_contact_update_time(rig: CrmHarness) -> None:
    record_id = rig.users.add(email="seven@example.com")
    rig.clock.advance(milliseconds=1)
    rig.users.update(record_id, firstname="Grace")

    record = rig.crm.get_contact(record_id)
    assert isinstance(record, CrmRecord)
    assert record.updated_at == START + timedelta(milliseconds=1)


@pytest.mark.parametrize("record_id", ["404", "abc", ".", "..", "1?archived=true"])
def test_missing_contact_is_gone(rig: CrmHarness, record_id: str) -> None:
    rig.users.add(email="seven@example.com")
    assert rig.crm.get_contact(record_id) == RecordNotFound()


def test_archived_contact_is_gone_and_not_listed(rig: CrmHarness) -> None:
    record_id = rig.users.add(oncely_id=MINE)

    rig.users.archive(record_id)
    assert rig.crm.get_contact(record_id) == RecordNotFound()
    assert rig.crm.find_by_external_id(MINE) == RecordNotFound()
    assert rig.crm.list_contacts(after=None) == CrmPage((), None)
    assert rig.crm.list_changed(since=START, after=None) == CrmPage((), None)


def test_pages_list_every_contact_once_in_stable_order(rig: CrmHarness) -> None:
    ids = rig.users.add_contacts(250)

    first = rig.crm.list_contacts(after=None)
    assert isinstance(first, CrmPage)
    second = rig.crm.list_contacts(after=first.after)
    assert isinstance(second, CrmPage)
    third = rig.crm.list_contacts(after=second.after)

    assert record_ids(first) + record_ids(second) + record_ids(third) == ids
    assert isinstance(third, CrmPage)
    assert third.after is None
    assert rig.crm.list_contacts(after=first.after) == second


def test_last_page_has_no_cursor_when_full(rig: CrmHarness) -> None:
    rig.users.add_contacts(100)
    for page in (rig.crm.list_contacts(after=None), rig.crm.list_changed(since=START, after=None)):
        assert isinstance(page, CrmPage)
        assert (len(page.records), page.after) == (100, None)


def test_changed_lists_contacts_updated_at_or_after_time(rig: CrmHarness) -> None:
    _, same, new = rig.users.add_contacts(3)
    rig.clock.advance(hours=1)
    since = rig.clock.now()
    rig.users.update(same, firstname="Grace")
    rig.clock.advance(hours=1)
    rig.users.update(new, firstname="Ada")

    assert record_ids(rig.crm.list_changed(since=since, after=None)) == [same, new]


def test_changed_pages_by_id_without_loss_or_repeat(rig: CrmHarness) -> None:
    ids = rig.users.add_contacts(250)
    first = rig.crm.list_changed(since=START, after=None)
    assert isinstance(first, CrmPage)

    rig.clock.advance(hours=1)
    rig.users.update(ids[7], firstname="shown already")
    rig.users.update(ids[207], firstname="not shown yet")
    rest = rig.crm.list_changed(since=START, after=first.after)

    assert record_ids(first) + record_ids(rest) == ids[:200]
    assert list_all_changed(rig) == ids


def call_every_step(rig: CrmHarness) -> list[object]:
    return [
        rig.crm.upsert_contact(MINE, {"firstname": "Grace"}),
        rig.crm.get_contact("1"),
        rig.crm.list_contacts(after=None),
        rig.crm.list_changed(since=START, after=None),
    ]


def test_rejected_token_writes_nothing_and_raises_alarm(rig: CrmHarness) -> None:
    for step in ("upsert_contact", "get_contact", "list_contacts", "list_changed"):
        rig.fail_next(step, ProviderFault.UNAUTHORIZED)
    answers = call_every_step(rig)
    assert all(isinstance(answer, NotSent) and answer.credentials_rejected for answer in answers)
    assert rig.writes() == []


def test_rate_limit_returns_retry_after(rig: CrmHarness) -> None:
    for step in ("upsert_contact", "get_contact", "list_contacts", "list_changed"):
        rig.limit_rate(step, seconds=7)
    waits = [isinstance(one, NotSent) and one.retry_after for one in call_every_step(rig)]
    assert (waits, rig.writes()) == ([timedelta(seconds=7)] * 4, [])


def test_spent_daily_limit_waits_for_reset_and_raises_alarm(rig: CrmHarness) -> None:
    rig.model.rules.is_daily_limit_reached = True
    rig.clock.advance(minutes=30)

    by_id = rig.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id="1")
    answers = [by_id, *call_every_step(rig)]
    found = rig.crm.find_by_external_id(MINE)

    wait = timedelta(hours=2, minutes=30)  # from 03:30 to 06:00 UTC
    assert all(isinstance(answer, NotSent) and answer.credentials_rejected for answer in answers)
    assert [isinstance(one, NotSent) and one.retry_after for one in answers] == [wait] * 5
    assert isinstance(found, LookupFailed)
    assert (found.retry_after, rig.writes()) == (wait, [])


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.UNAUTHORIZED])
def test_find_is_unreachable_when_request_fails(rig: CrmHarness, fault: ProviderFault) -> None:
    rig.fail_next("find_by_external_id", fault)
    assert isinstance(rig.crm.find_by_external_id(MINE), LookupFailed)


def get_properties(found: object) -> dict[str, object]:
    assert isinstance(found, CrmRecord)
    properties = found.body["properties"]
    assert isinstance(properties, dict)
    return dict(properties)


def test_push_creates_contact_once_then_updates_it(rig: CrmHarness) -> None:
    first = rig.crm.upsert_contact(MINE, {"email": "seven@example.com"})
    changes = {"email": "eight@example.com"}
    again = rig.crm.upsert_contact(MINE, changes, version=7)

    assert isinstance(first, Succeeded)
    assert isinstance(again, Succeeded)
    assert first.ref == again.ref == first.result["crm_id"]
    assert rig.writes() == [2]
    found = rig.crm.find_by_external_id(MINE)
    assert isinstance(found, CrmRecord)
    assert found.record_id == first.ref
    assert get_properties(found).items() >= changes.items()
    assert found.version == 7


def test_push_by_crm_id_sets_external_id(rig: CrmHarness) -> None:
    record_id = rig.users.add(email="seven@example.com")
    answer = rig.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=record_id)
    assert isinstance(answer, Succeeded)
    assert (answer.ref, rig.writes()) == (record_id, [1])
    assert get_properties(rig.crm.find_by_external_id(MINE))["email"] == "seven@example.com"


def test_archived_contact_is_gone_by_crm_id(rig: CrmHarness) -> None:
    record_id = rig.users.add(email="seven@example.com")
    rig.users.archive(record_id)
    answer = rig.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=record_id)
    assert (answer, rig.writes()) == (RecordNotFound(), [0])
    assert rig.crm.find_by_external_id(MINE, crm_id=record_id) == RecordNotFound()


def test_push_conflict_names_contact_with_same_external_id(rig: CrmHarness) -> None:
    first = rig.crm.upsert_contact(MINE, {"firstname": "Grace"})
    other = rig.users.add(email="seven@example.com")

    answer = rig.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=other)
    assert isinstance(first, Succeeded)
    assert isinstance(answer, CrmConflict)
    assert (answer.record_id, rig.writes()) == (first.ref, [1, 0])


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("by_its_own_id", [False, True])
def test_push_conflict_names_contact_with_same_email(
    rig: CrmHarness, *, by_its_own_id: bool, named: bool
) -> None:
    rig.model.rules.reports_conflicting_property = named
    holder = rig.users.add(email="seven@example.com")
    crm_id = rig.users.add(email="eight@example.com") if by_its_own_id else None

    answer = rig.crm.upsert_contact(MINE, {"email": "seven@example.com"}, crm_id=crm_id)
    assert isinstance(answer, CrmConflict)
    assert answer.record_id == holder
    assert answer.properties == ({"email"} if named else set())
    assert sum(rig.writes()) == 0


@pytest.mark.parametrize("external_id", ["shop#7", None])
def test_find_by_crm_id_returns_ids_and_email(rig: CrmHarness, external_id: str | None) -> None:
    link = {"oncely_id": external_id} if external_id else {}
    record_id = rig.users.add(email="seven@example.com", **link)

    found = rig.crm.find_by_external_id(MINE, crm_id=record_id)
    assert isinstance(found, CrmRecord)
    assert (found.record_id, found.external_id) == (record_id, external_id)
    assert get_properties(found)["email"] == "seven@example.com"


def test_archived_contact_frees_its_email_and_external_id(rig: CrmHarness) -> None:
    rig.users.archive(rig.users.add(email="seven@example.com", oncely_id=MINE))
    assert isinstance(rig.crm.upsert_contact(MINE, {"email": "seven@example.com"}), Succeeded)


@pytest.mark.parametrize("by_its_own_id", [False, True])
def test_unknown_property_is_declined(rig: CrmHarness, *, by_its_own_id: bool) -> None:
    crm_id = rig.users.add(email="seven@example.com") if by_its_own_id else None
    answer = rig.crm.upsert_contact(MINE, {"no_such_property": "1"}, crm_id=crm_id)
    assert isinstance(answer, Declined)
    assert (answer.code, sum(rig.writes())) == ("VALIDATION_ERROR", 0)


@pytest.mark.parametrize("by_its_own_id", [False, True])
@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_push_without_reply_is_ambiguous_until_lookup(
    rig: CrmHarness, fault: ProviderFault, *, by_its_own_id: bool
) -> None:
    crm_id = rig.users.add(email="seven@example.com") if by_its_own_id else None
    rig.fail_next("upsert_contact", fault)

    answer = rig.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=crm_id)
    assert isinstance(answer, Ambiguous)
    happened = fault is ProviderFault.TIMEOUT_AFTER
    assert isinstance(rig.crm.find_by_external_id(MINE), CrmRecord if happened else RecordNotFound)
    assert sum(rig.writes()) == int(happened)


@pytest.mark.parametrize("external_id", [MINE, "a/b?c=d&e", "käse 100%", "x@example.com"])
def test_external_id_may_hold_any_characters(rig: CrmHarness, external_id: str) -> None:
    answer = rig.crm.upsert_contact(external_id, {"firstname": "Grace"})
    found = rig.crm.find_by_external_id(external_id)
    assert isinstance(answer, Succeeded)
    assert isinstance(found, CrmRecord)
    assert found.record_id == answer.ref


ODD_IDS: list[tuple[str, str | None]] = [(one, None) for one in (".", "..", "%2e%2e", "a/../b", "")]
ODD_IDS += [(MINE, one) for one in (".", "..", "7/associations", "7?archived=true", "abc")]


@pytest.mark.parametrize(("external_id", "crm_id"), ODD_IDS)
def test_path_in_id_is_anomalous(rig: CrmHarness, external_id: str, crm_id: str | None) -> None:
    pushed = rig.crm.upsert_contact(external_id, {"firstname": "Grace"}, crm_id=crm_id)
    found = rig.crm.find_by_external_id(external_id, crm_id=crm_id)
    assert (type(pushed), type(found), rig.writes()) == (Anomalous, Anomalous, [])


# What the model may do that HubSpot does, or what it stops enforcing.


def test_small_pages_list_every_contact_once(rig: CrmHarness) -> None:
    ids = rig.users.add_contacts(5)
    rig.model.rules.max_results = 2

    for first in (rig.crm.list_contacts(after=None), rig.crm.list_changed(since=START, after=None)):
        assert isinstance(first, CrmPage)
        assert (record_ids(first), first.after) == (ids[:2], ids[1])
    assert list_all_changed(rig) == ids


def test_search_lags_behind_other_reads(rig: CrmHarness) -> None:
    known = rig.users.add(email="known@example.com")
    rig.clock.advance(hours=1)
    since = rig.clock.now()
    rig.model.rules.search_lag = timedelta(seconds=30)
    rig.users.update(known, firstname="Grace")
    rig.users.update(known, firstname="Ada")
    new = rig.users.add(email="new@example.com")

    assert record_ids(rig.crm.list_changed(since=START, after=None)) == [known]
    assert record_ids(rig.crm.list_changed(since=since, after=None)) == []
    assert record_ids(rig.crm.list_contacts(after=None)) == [known, new]
    rig.clock.advance(seconds=30)
    assert record_ids(rig.crm.list_changed(since=since, after=None)) == [known, new]


def test_values_are_not_unique_when_switched_off(rig: CrmHarness) -> None:
    rig.model.rules.has_unique_values = False
    for _ in range(2):
        assert isinstance(rig.crm.upsert_contact(MINE, {"email": "seven@example.com"}), Succeeded)
    assert rig.writes() == [1, 1]


def test_id_of_merged_contact_stands_for_the_other(rig: CrmHarness) -> None:
    merged = rig.users.add(email="seven@example.com", phone="7")
    kept = rig.users.add(email="eight@example.com")
    rig.users.merge(merged, into=kept)

    found = rig.crm.find_by_external_id(MINE, crm_id=merged)
    assert isinstance(found, CrmRecord)
    assert (found.record_id, get_properties(found)["email"]) == (kept, "eight@example.com")
    answer = rig.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=merged)
    assert isinstance(answer, Succeeded)
    assert answer.ref == kept
    assert record_ids(rig.crm.list_contacts(after=None)) == [kept]


def test_restored_contact_is_found_again(rig: CrmHarness) -> None:
    record_id = rig.users.add(oncely_id=MINE)
    rig.users.archive(record_id)
    rig.users.restore(record_id)
    assert isinstance(rig.crm.find_by_external_id(MINE), CrmRecord)


def test_same_requests_give_the_same_responses() -> None:
    def responses() -> list[object]:
        with crm_harness("in process") as rig:
            rig.users.add_contacts(3)
            return [*call_every_step(rig), rig.crm.find_by_external_id(MINE)]

    assert responses() == responses()
