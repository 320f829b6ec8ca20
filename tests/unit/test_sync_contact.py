"""sync.contact: the newest version wins in any order of delivery; which contact is gone."""

import json
from datetime import datetime
from typing import Any

import pytest

from oncely.jobs.sync_contact import SyncContact
from oncely.providers.interfaces import CrmRecord
from tests.support.in_memory_stack import InMemoryStack
from tests.support.outcomes import is_duplicate, is_finished, is_retried
from tests.support.provider_fault import ProviderFault
from tests.unit.samples import make_job

OLD, NEW = "2026-11-16T02:20:00Z", "2026-11-16T03:20:00+01:00"  # NEW is the same instant as OLD
LATER = "2026-11-16T04:50:00+02:00"  # 02:50 UTC: later than OLD, though it sorts before nothing


def crm_record(at: str = OLD, **properties: object) -> dict[str, Any]:
    times = {"createdAt": "2026-01-01T00:00:00Z", "updatedAt": at}
    email = {"email": "ada@example.com"}
    return {"id": "4419", "properties": {**email, **properties}, **times, "archived": False}


def put_contact(world: InMemoryStack, body: dict[str, Any]) -> None:
    """Set what HubSpot returns from now on."""
    contact = CrmRecord(
        record_id=body["id"],
        updated_at=datetime.fromisoformat(body["updatedAt"]),
        archived=False,
        body=body,
    )
    world.crm.get_contact = lambda _: contact


def contact_message(event_id: str, **more: object) -> dict[str, object]:
    source = {"source": "hubspot", "source_id": "4419", "event_id": event_id}
    return {"job": "sync.contact", "v": 1, **source, **more}


def import_result(world: InMemoryStack, event_id: str) -> object:
    key = {"record_id": "hubspot#4419", "event_id": event_id}
    row = world.rows.get("import_events", key)
    assert row is not None
    return row["result"]


def stored_contact(world: InMemoryStack) -> Any:  # noqa: ANN401  # a row of any columns
    return world.rows.get("records", {"record_id": "hubspot#4419"})


def test_newest_version_wins_when_older_one_is_read_later(world: InMemoryStack) -> None:
    versions = (crm_record(LATER, phone="2"), crm_record(OLD, phone="1"))
    for event, body in zip(("1", "2", "3"), (*versions, versions[0]), strict=True):
        put_contact(world, body)
        world.run(contact_message(event))

    assert stored_contact(world)["record"]["properties"]["phone"] == "2"
    assert stored_contact(world)["version"] == 1
    events = [import_result(world, event) for event in ("1", "2", "3")]
    assert events == ["imported", "skipped_stale", "unchanged"]


@pytest.mark.parametrize(
    ("first", "second", "result", "row"),
    [
        (crm_record(OLD), crm_record(NEW), "unchanged", (1, None)),
        (crm_record(OLD, phone="1"), crm_record(LATER, phone="2"), "updated", (2, "2")),
        (crm_record(OLD, phone="1"), crm_record(OLD, phone="2"), "conflict", (1, "1")),
        (crm_record(a="1", b="2"), crm_record(b="2", a="1"), "unchanged", (1, None)),
    ],
    ids=["same instant", "newer", "same version", "order of properties"],
)
def test_second_record_is_compared_by_instant_and_content(
    world: InMemoryStack,
    first: dict[str, Any],
    second: dict[str, Any],
    result: str,
    row: tuple[int, object],
) -> None:
    for event, body in (("1", first), ("2", second)):
        put_contact(world, body)
        world.run(contact_message(event))

    stored = stored_contact(world)
    assert import_result(world, "2") == result
    assert (stored["version"], stored["record"]["properties"].get("phone")) == row
    assert stored["imported_version"] == stored["version"]


def test_repeated_event_is_duplicate(world: InMemoryStack) -> None:
    put_contact(world, crm_record())
    first = world.run(contact_message("1"))

    second = world.run(contact_message("1"))

    assert is_finished(first)
    assert is_duplicate(second)
    assert second.result == first.result


def test_contact_is_fetched_from_its_source(world: InMemoryStack) -> None:
    contact_id = world.crm.add(email="ada@example.com")

    assert is_finished(world.run({**contact_message("1"), "source_id": contact_id}))
    row = world.rows.get("records", {"record_id": f"hubspot#{contact_id}"})
    assert row is not None
    assert row["source_id"] == contact_id


def test_message_is_handed_back_when_source_is_unreachable(world: InMemoryStack) -> None:
    world.crm.fail_next("get_contact", ProviderFault.TIMEOUT_BEFORE)
    assert is_retried(world.run(contact_message("1")))
    assert stored_contact(world) is None


def test_contact_is_retried_when_row_changes_before_write(world: InMemoryStack) -> None:
    rows = world.rows
    crm_id = world.crm.add(email="ada@example.com")
    key = {"record_id": f"hubspot#{crm_id}"}
    fetch = world.crm.get_contact

    def fetch_while_another_imports(record_id: str) -> object:
        newer = {"version": 5, "source_updated_at": "2027-01-01T00:00:00.000Z"}
        rows.put("records", key, newer)
        return fetch(record_id)

    world.crm.get_contact = fetch_while_another_imports
    message = {**contact_message("1"), "source_id": crm_id}
    first = world.run(message)
    world.crm.get_contact = fetch

    second = world.run(message)

    assert is_retried(first)
    assert is_finished(second)
    assert second.result["result"] == "skipped_stale"
    assert rows.get("records", key) is not None


def test_unusual_properties_survive_round_trip(world: InMemoryStack) -> None:
    odd: dict[str, object] = {f"property_{n}": f"wert {n} ✓ 例" for n in range(297)}
    odd |= {"empty": "", "nothing": None, "status": "a reserved word", "size": "another"}

    put_contact(world, crm_record(OLD, **odd))
    world.run(contact_message("1"))

    assert stored_contact(world)["record"] == crm_record(OLD, **odd)
    assert json.loads(json.dumps(stored_contact(world)["record"])) == crm_record(OLD, **odd)


@pytest.mark.parametrize("restored", [True, False])
def test_fetched_contact_is_no_longer_gone(world: InMemoryStack, *, restored: bool) -> None:
    crm_id = world.crm.add(email="ada@example.com")
    message = {**contact_message("1"), "source_id": crm_id}
    rows, key = world.rows, {"record_id": f"hubspot#{crm_id}"}
    if restored:  # in the CRM, after it was missing there
        world.crm.archive(crm_id)
        world.clock.advance(hours=1)
        world.run(message)
        world.crm.restore(crm_id)
    else:
        world.run(message)
        rows.put("records", key, {**dict(rows.get("records", key) or {}), "gone": True})
    assert dict(rows.get("records", key) or {})["gone"] is True

    world.run({**message, "event_id": "2"})

    assert dict(rows.get("records", key) or {})["gone"] is False


SOURCE = {"source": "hubspot", "source_id": "4419"}


def test_contact_missing_twice_is_marked_once(world: InMemoryStack) -> None:
    fetch = world.crm.get_contact
    put_contact(world, crm_record())
    world.run(contact_message("1"))
    world.crm.get_contact = fetch
    for event in ("2", "3"):
        world.run(contact_message(event))
        assert import_result(world, event) == "gone"
    assert (stored_contact(world)["gone"], stored_contact(world)["version"]) == (True, 2)


def test_contact_merged_into_another_is_gone(world: InMemoryStack) -> None:
    put_contact(world, {**crm_record(), "id": "5000"})
    world.run(contact_message("1"))
    assert stored_contact(world)["gone"] is True


def test_tombstone_of_missing_contact_names_its_source(world: InMemoryStack) -> None:
    world.run(contact_message("1"))

    row = stored_contact(world)
    assert {name: row[name] for name in SOURCE} == SOURCE
    assert (row["gone"], row["version"]) == (True, 1)


@pytest.mark.parametrize(
    ("result", "words"),
    [({"result": "skipped_stale"}, "skipped stale"), (None, "noted"), ({}, "noted")],
)
def test_success_summary_names_result(result: dict[str, str] | None, words: str) -> None:
    summary = SyncContact.success_summary(make_job(result=result))
    assert summary == f"The contact's event was handled: {words}."
