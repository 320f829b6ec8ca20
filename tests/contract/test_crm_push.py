"""What any CRM must do when it is written to; the fake and the HubSpot adapter alike."""

from collections.abc import Iterator

import pytest

from oncely.contracts.sync_push import VERSION_PROPERTY
from oncely.domain.answers import Done, Odd, Refused, Unclear
from oncely.providers import CrmRecord, Gone, Taken
from tests.contract.crms import CRMS, Bench, crm_bench
from tests.support.payments import Fault

MINE = "hubspot#4419"


@pytest.fixture(params=CRMS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with crm_bench(request.param) as running:
        yield running


def found_properties(bench: Bench) -> dict[str, object]:
    return properties_of(bench.crm.find(MINE))


def properties_of(found: object) -> dict[str, object]:
    assert isinstance(found, CrmRecord)
    properties = found.body["properties"]
    assert isinstance(properties, dict)
    return dict(properties)


def test_push_creates_contact_once_then_updates_it(bench: Bench) -> None:
    first = bench.crm.push(MINE, {"email": "seven@example.com"})
    again = bench.crm.push(MINE, {"email": "eight@example.com"})

    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert first.ref == again.ref == first.result["crm_id"]
    assert bench.writes() == [2]
    assert found_properties(bench)["email"] == "eight@example.com"


def test_pushed_contact_is_found_by_external_id_with_version(bench: Bench) -> None:
    answer = bench.crm.push(MINE, {"firstname": "Grace", VERSION_PROPERTY: "7"})

    found = bench.crm.find(MINE)

    assert isinstance(answer, Done)
    assert isinstance(found, CrmRecord)
    assert found.record_id == answer.ref
    assert found_properties(bench)[VERSION_PROPERTY] == "7"


def test_push_by_crm_id_sets_external_id(bench: Bench) -> None:
    record_id = bench.people.add(email="seven@example.com")

    answer = bench.crm.push(MINE, {"firstname": "Grace"}, crm_id=record_id)

    assert isinstance(answer, Done)
    assert answer.ref == record_id
    assert bench.writes() == [1]
    assert found_properties(bench)["email"] == "seven@example.com"


def test_push_by_crm_id_is_gone_when_contact_is_archived(bench: Bench) -> None:
    record_id = bench.people.add(email="seven@example.com")
    bench.people.archive(record_id)

    answer = bench.crm.push(MINE, {"firstname": "Grace"}, crm_id=record_id)

    assert answer == Gone()
    assert bench.writes() == [0]


def test_push_conflict_names_contact_with_same_external_id(bench: Bench) -> None:
    first = bench.crm.push(MINE, {"firstname": "Grace"})
    other = bench.people.add(email="seven@example.com")

    answer = bench.crm.push(MINE, {"firstname": "Grace"}, crm_id=other)

    assert isinstance(first, Done)
    assert isinstance(answer, Taken)
    assert answer.record_id == first.ref
    assert bench.writes() == [1, 0]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("by_its_own_id", [False, True])
def test_push_conflict_names_contact_with_same_email(
    bench: Bench, *, by_its_own_id: bool, named: bool
) -> None:
    bench.names_what_collided(named)
    holder = bench.people.add(email="seven@example.com")
    crm_id = bench.people.add(email="eight@example.com") if by_its_own_id else None

    answer = bench.crm.push(MINE, {"email": "seven@example.com"}, crm_id=crm_id)

    assert isinstance(answer, Taken)
    assert answer.record_id == holder
    assert answer.by == ({"email"} if named else set())
    assert sum(bench.writes()) == 0


def test_find_by_crm_id_returns_external_id_and_email(bench: Bench) -> None:
    linked = bench.people.add(email="seven@example.com", oncely_id="shop#7")
    plain = bench.people.add(email="eight@example.com")

    found = [bench.crm.find(MINE, crm_id=one) for one in (linked, plain)]

    assert [isinstance(one, CrmRecord) and one.record_id for one in found] == [linked, plain]
    assert [isinstance(one, CrmRecord) and one.external_id for one in found] == ["shop#7", None]
    addresses = [properties_of(one)["email"] for one in found]
    assert addresses == ["seven@example.com", "eight@example.com"]


def test_find_by_crm_id_is_gone_when_contact_is_archived(bench: Bench) -> None:
    record_id = bench.people.add(email="seven@example.com")
    bench.people.archive(record_id)

    assert bench.crm.find(MINE, crm_id=record_id) == Gone()


def test_archived_contact_frees_its_email_and_external_id(bench: Bench) -> None:
    bench.people.archive(bench.people.add(email="seven@example.com", oncely_id=MINE))

    assert isinstance(bench.crm.push(MINE, {"email": "seven@example.com"}), Done)


@pytest.mark.parametrize("by_its_own_id", [False, True])
def test_unknown_property_is_declined(bench: Bench, *, by_its_own_id: bool) -> None:
    crm_id = bench.people.add(email="seven@example.com") if by_its_own_id else None

    answer = bench.crm.push(MINE, {"no_such_property": "1"}, crm_id=crm_id)

    assert isinstance(answer, Refused)
    assert answer.code == "VALIDATION_ERROR"
    assert sum(bench.writes()) == 0


@pytest.mark.parametrize("by_its_own_id", [False, True])
@pytest.mark.parametrize("fault", [Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER])
def test_push_without_reply_is_ambiguous_until_lookup(
    bench: Bench, fault: Fault, *, by_its_own_id: bool
) -> None:
    crm_id = bench.people.add(email="seven@example.com") if by_its_own_id else None
    bench.fails("push", fault)

    answer = bench.crm.push(MINE, {"firstname": "Grace"}, crm_id=crm_id)

    happened = fault is Fault.TIMEOUT_AFTER
    assert isinstance(answer, Unclear)
    assert isinstance(bench.crm.find(MINE), CrmRecord if happened else Gone)
    assert sum(bench.writes()) == int(happened)


@pytest.mark.parametrize("external_id", [MINE, "a/b?c=d&e", "käse 100%", "x@example.com"])
def test_external_id_may_hold_any_characters(bench: Bench, external_id: str) -> None:
    answer = bench.crm.push(external_id, {"firstname": "Grace"})

    found = bench.crm.find(external_id)

    assert isinstance(answer, Done)
    assert isinstance(found, CrmRecord)
    assert found.record_id == answer.ref


@pytest.mark.parametrize("external_id", [".", "..", "%2e%2e", "a/../b", ""])
def test_external_id_that_changes_path_is_anomalous(bench: Bench, external_id: str) -> None:
    answers = [bench.crm.push(external_id, {"firstname": "Grace"}), bench.crm.find(external_id)]

    assert [type(answer) for answer in answers] == [Odd, Odd]
    assert bench.writes() == []


@pytest.mark.parametrize("crm_id", [".", "..", "7/associations", "7?archived=true", "abc"])
def test_non_numeric_crm_id_is_anomalous(bench: Bench, crm_id: str) -> None:
    answers = [
        bench.crm.push(MINE, {"firstname": "Grace"}, crm_id=crm_id),
        bench.crm.find(MINE, crm_id=crm_id),
    ]

    assert [type(answer) for answer in answers] == [Odd, Odd]
    assert bench.writes() == []
