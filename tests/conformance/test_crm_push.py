"""What any CRM must do when it is written to; the fake and the HubSpot adapter alike."""

from collections.abc import Iterator

import pytest

from oncely.domain.effect_outcomes import Ambiguous, Anomalous, Declined, Succeeded
from oncely.providers.interfaces import VERSION_PROPERTY, CrmConflict, CrmRecord, RecordNotFound
from tests.conformance.crm_harnesses import CRMS, CrmHarness, crm_harness
from tests.support.payments import PaymentFault

MINE = "hubspot#4419"


@pytest.fixture(params=CRMS)
def harness(request: pytest.FixtureRequest) -> Iterator[CrmHarness]:
    with crm_harness(request.param) as running:
        yield running


def found_properties(harness: CrmHarness) -> dict[str, object]:
    return get_properties(harness.crm.find_by_external_id(MINE))


def get_properties(found: object) -> dict[str, object]:
    assert isinstance(found, CrmRecord)
    properties = found.body["properties"]
    assert isinstance(properties, dict)
    return dict(properties)


def test_push_creates_contact_once_then_updates_it(harness: CrmHarness) -> None:
    first = harness.crm.upsert_contact(MINE, {"email": "seven@example.com"})
    again = harness.crm.upsert_contact(MINE, {"email": "eight@example.com"})

    assert isinstance(first, Succeeded)
    assert isinstance(again, Succeeded)
    assert first.ref == again.ref == first.result["crm_id"]
    assert harness.writes() == [2]
    assert found_properties(harness)["email"] == "eight@example.com"


def test_pushed_contact_is_found_by_external_id_with_version(harness: CrmHarness) -> None:
    answer = harness.crm.upsert_contact(MINE, {"firstname": "Grace", VERSION_PROPERTY: "7"})

    found = harness.crm.find_by_external_id(MINE)

    assert isinstance(answer, Succeeded)
    assert isinstance(found, CrmRecord)
    assert found.record_id == answer.ref
    assert found_properties(harness)[VERSION_PROPERTY] == "7"


def test_push_by_crm_id_sets_external_id(harness: CrmHarness) -> None:
    record_id = harness.users.add(email="seven@example.com")

    answer = harness.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=record_id)

    assert isinstance(answer, Succeeded)
    assert answer.ref == record_id
    assert harness.writes() == [1]
    assert found_properties(harness)["email"] == "seven@example.com"


def test_push_by_crm_id_is_gone_when_contact_is_archived(harness: CrmHarness) -> None:
    record_id = harness.users.add(email="seven@example.com")
    harness.users.archive(record_id)

    answer = harness.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=record_id)

    assert answer == RecordNotFound()
    assert harness.writes() == [0]


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


def test_find_by_crm_id_returns_external_id_and_email(harness: CrmHarness) -> None:
    linked = harness.users.add(email="seven@example.com", oncely_id="shop#7")
    plain = harness.users.add(email="eight@example.com")

    found = [harness.crm.find_by_external_id(MINE, crm_id=one) for one in (linked, plain)]

    assert [isinstance(one, CrmRecord) and one.record_id for one in found] == [linked, plain]
    assert [isinstance(one, CrmRecord) and one.external_id for one in found] == ["shop#7", None]
    addresses = [get_properties(one)["email"] for one in found]
    assert addresses == ["seven@example.com", "eight@example.com"]


def test_find_by_crm_id_is_gone_when_contact_is_archived(harness: CrmHarness) -> None:
    record_id = harness.users.add(email="seven@example.com")
    harness.users.archive(record_id)

    assert harness.crm.find_by_external_id(MINE, crm_id=record_id) == RecordNotFound()


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
@pytest.mark.parametrize("fault", [PaymentFault.TIMEOUT_BEFORE, PaymentFault.TIMEOUT_AFTER])
def test_push_without_reply_is_ambiguous_until_lookup(
    harness: CrmHarness, fault: PaymentFault, *, by_its_own_id: bool
) -> None:
    crm_id = harness.users.add(email="seven@example.com") if by_its_own_id else None
    harness.fail_next("upsert_contact", fault)

    answer = harness.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=crm_id)

    happened = fault is PaymentFault.TIMEOUT_AFTER
    assert isinstance(answer, Ambiguous)
    assert isinstance(
        harness.crm.find_by_external_id(MINE), CrmRecord if happened else RecordNotFound
    )
    assert sum(harness.writes()) == int(happened)


@pytest.mark.parametrize("external_id", [MINE, "a/b?c=d&e", "käse 100%", "x@example.com"])
def test_external_id_may_hold_any_characters(harness: CrmHarness, external_id: str) -> None:
    answer = harness.crm.upsert_contact(external_id, {"firstname": "Grace"})

    found = harness.crm.find_by_external_id(external_id)

    assert isinstance(answer, Succeeded)
    assert isinstance(found, CrmRecord)
    assert found.record_id == answer.ref


@pytest.mark.parametrize("external_id", [".", "..", "%2e%2e", "a/../b", ""])
def test_external_id_that_changes_path_is_anomalous(harness: CrmHarness, external_id: str) -> None:
    answers = [
        harness.crm.upsert_contact(external_id, {"firstname": "Grace"}),
        harness.crm.find_by_external_id(external_id),
    ]

    assert [type(answer) for answer in answers] == [Anomalous, Anomalous]
    assert harness.writes() == []


@pytest.mark.parametrize("crm_id", [".", "..", "7/associations", "7?archived=true", "abc"])
def test_non_numeric_crm_id_is_anomalous(harness: CrmHarness, crm_id: str) -> None:
    answers = [
        harness.crm.upsert_contact(MINE, {"firstname": "Grace"}, crm_id=crm_id),
        harness.crm.find_by_external_id(MINE, crm_id=crm_id),
    ]

    assert [type(answer) for answer in answers] == [Anomalous, Anomalous]
    assert harness.writes() == []
