"""sync.contact: the newest version wins in any order of delivery; which contact is gone."""

import json
from dataclasses import replace
from typing import Any

import pytest

from oncely.jobs.sync_contact import SyncContact
from oncely.run.outcomes import Duplicate, Finished, InvalidMessage, NeedsReview, NotAttempted
from oncely.testing.memory import MemoryBusinessRows
from oncely.testing.provider_fault import ProviderFault
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.samples import make_job

OLD, NEW = "2026-11-16T02:20:00Z", "2026-11-16T03:20:00+01:00"  # NEW is the same instant as OLD
LATER = "2026-11-16T04:50:00+02:00"  # 02:50 UTC: later than OLD, though it sorts before nothing


def crm_record(at: str = OLD, **properties: object) -> dict[str, object]:
    times = {"createdAt": "2026-01-01T00:00:00Z", "updatedAt": at}
    email = {"email": "ada@example.com"}
    return {"id": "4419", "properties": {**email, **properties}, **times, "archived": False}


def archived(at: str) -> dict[str, object]:
    return {**crm_record(at), "archived": True}


def contact_message(event_id: str, **more: object) -> dict[str, object]:
    source = {"source": "hubspot", "source_id": "4419", "event_id": event_id}
    return {"job": "sync.contact", "v": 1, **source, **more}


def import_result(world: InMemoryStack, event_id: str) -> object:
    key = {"record_id": "hubspot#4419", "event_id": event_id}
    row = world.dependencies.rows.get("import_events", key)
    assert row is not None
    return row["result"]


def stored_contact(world: InMemoryStack) -> Any:  # noqa: ANN401  # a row of any columns
    return world.dependencies.rows.get("records", {"record_id": "hubspot#4419"})


def test_newest_version_wins_in_any_delivery_order(world: InMemoryStack) -> None:
    world.run(contact_message("1", record=crm_record(LATER, phone="2")))
    world.run(contact_message("2", record=crm_record(OLD, phone="1")))
    world.run(contact_message("3", record=crm_record(LATER, phone="2")))

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
    world: InMemoryStack, first: object, second: object, result: str, row: tuple[int, object]
) -> None:
    world.run(contact_message("1", record=first))
    world.run(contact_message("2", record=second))

    stored = stored_contact(world)
    assert import_result(world, "2") == result
    assert (stored["version"], stored["record"]["properties"].get("phone")) == row


def test_repeated_event_is_duplicate(world: InMemoryStack) -> None:
    first = world.run(contact_message("1", record=crm_record()))

    second = world.run(contact_message("1", record=crm_record()))

    assert isinstance(first, Finished)
    assert isinstance(second, Duplicate)
    assert second.result == first.result


def test_contact_is_fetched_when_message_has_no_record(world: InMemoryStack) -> None:
    contact_id = world.crm.add(email="ada@example.com")

    assert isinstance(world.run({**contact_message("1"), "source_id": contact_id}), Finished)
    row = world.dependencies.rows.get("records", {"record_id": f"hubspot#{contact_id}"})
    assert row is not None
    assert row["source_id"] == contact_id


def test_message_is_handed_back_when_source_is_unreachable(world: InMemoryStack) -> None:
    world.crm.fail_next("get_contact", ProviderFault.TIMEOUT_BEFORE)
    assert isinstance(world.run(contact_message("1")), NotAttempted)
    assert stored_contact(world) is None


def test_contact_is_retried_when_row_changes_before_write(world: InMemoryStack) -> None:
    rows = world.dependencies.rows
    assert isinstance(rows, MemoryBusinessRows)
    crm_id = world.crm.add(email="ada@example.com")
    key = {"record_id": f"hubspot#{crm_id}"}
    fetch = world.crm.get_contact

    def fetch_while_another_imports(record_id: str) -> object:
        newer = {"version": 5, "source_updated_at": "2027-01-01T00:00:00.000Z", "fetched": True}
        rows.put("records", key, newer)
        return fetch(record_id)

    world.crm.get_contact = fetch_while_another_imports
    message = {**contact_message("1"), "source_id": crm_id}
    first = world.run(message)
    world.crm.get_contact = fetch

    second = world.run(message)

    assert isinstance(first, NotAttempted)
    assert isinstance(second, Finished)
    assert second.result["result"] == "skipped_stale"
    assert rows.get("records", key) is not None


def test_unusual_properties_survive_round_trip(world: InMemoryStack) -> None:
    odd: dict[str, object] = {f"property_{n}": f"wert {n} ✓ 例" for n in range(297)}
    odd |= {"empty": "", "nothing": None, "status": "a reserved word", "size": "another"}

    world.run(contact_message("1", record=crm_record(OLD, **odd)))

    assert stored_contact(world)["record"] == crm_record(OLD, **odd)
    assert json.loads(json.dumps(stored_contact(world)["record"])) == crm_record(OLD, **odd)


@pytest.mark.parametrize(
    "wrong", [{"id": 4419}, {"id": "4419", "updatedAt": "yesterday"}, {"updatedAt": OLD}]
)
def test_record_without_id_or_time_is_invalid(world: InMemoryStack, wrong: object) -> None:
    assert isinstance(world.run(contact_message("1", record=wrong)), InvalidMessage)


def test_record_of_other_contact_needs_review(world: InMemoryStack) -> None:
    other = {**crm_record(), "id": "5000"}
    assert isinstance(world.run(contact_message("1", record=other)), NeedsReview)


@pytest.mark.parametrize(
    "earlier",
    [
        [{"record": crm_record("2026-11-16T01:00:00Z")}, {"record": archived(OLD)}],
        [{"record": archived(OLD)}],
        [{"record": crm_record("2026-11-16T01:00:00Z")}, {}],
        [{}],  # asked at 03:00, and gone
    ],
    ids=["archived", "first seen archived", "missing", "first seen missing"],
)
def test_older_record_keeps_contact_gone(
    world: InMemoryStack, earlier: list[dict[str, object]]
) -> None:
    for number, more in enumerate(earlier):
        world.run(contact_message(str(number), **more))

    world.run(contact_message("last", record=crm_record("2026-11-16T02:00:00Z", phone="2")))

    assert import_result(world, "last") == "skipped_stale"
    assert stored_contact(world)["gone"] is True


@pytest.mark.parametrize("restored", [True, False])
def test_fetched_contact_is_no_longer_gone(world: InMemoryStack, *, restored: bool) -> None:
    crm_id = world.crm.add(email="ada@example.com")
    message = {**contact_message("1"), "source_id": crm_id}
    rows, key = world.dependencies.rows, {"record_id": f"hubspot#{crm_id}"}
    if restored:  # in the CRM, after it was missing there
        there = world.crm.contacts.pop(crm_id)
        world.clock.advance(hours=1)
        world.run(message)
        world.crm.contacts[crm_id] = there
    else:
        world.run(message)
        rows.put("records", key, {**dict(rows.get("records", key) or {}), "gone": True})
    assert dict(rows.get("records", key) or {})["gone"] is True

    world.run({**message, "event_id": "2"})

    assert dict(rows.get("records", key) or {})["gone"] is False


def test_newer_record_brings_gone_contact_back(world: InMemoryStack) -> None:
    world.run(contact_message("1"))

    world.run(contact_message("2", record=crm_record("2026-11-16T03:00:01Z")))
    world.run(contact_message("3", record=crm_record("2026-11-16T03:00:02Z")))

    assert [import_result(world, event) for event in ("2", "3")] == ["updated", "updated"]
    assert stored_contact(world)["gone"] is False
    assert "gone_at" not in stored_contact(world)


EARLY, SAME, LATE = "2026-11-16T01:00:00Z", "2026-11-16T02:00:00Z", "2026-11-16T02:30:00Z"
SOURCE = {"source": "hubspot", "source_id": "4419"}


def run(world: InMemoryStack, event_id: str, record: dict[str, object] | None = None) -> object:
    given = {} if record is None else {"record": record}
    outcome = world.run({"job": "sync.contact", "v": 1, **SOURCE, "event_id": event_id, **given})
    assert isinstance(outcome, Finished)
    return outcome.result["result"]


def make_contact(at: str, *, archived: bool = False) -> dict[str, object]:
    return {"id": "4419", "properties": {}, "updatedAt": at, "archived": archived}


def stored_record(world: InMemoryStack) -> Any:  # noqa: ANN401  # a row of any columns
    return world.dependencies.rows.get("records", {"record_id": "hubspot#4419"})


@pytest.mark.parametrize(
    ("at", "result"), [(EARLY, "skipped_stale"), (SAME, "gone"), (LATE, "gone")]
)
def test_archived_contact_is_gone_unless_newer_one_is_stored(at: str, result: str) -> None:
    world = InMemoryStack()
    run(world, "1", make_contact(SAME))
    assert run(world, "2", make_contact(at, archived=True)) == result
    assert stored_record(world)["gone"] is (result == "gone")


def test_archived_record_applies_after_later_lookup() -> None:
    world = InMemoryStack()
    run(world, "1", make_contact(EARLY))
    run(world, "2")

    assert run(world, "3", make_contact(SAME, archived=True)) == "gone"
    assert stored_record(world)["source_updated_at"].startswith("2026-11-16T02:00:00")


def test_contact_missing_twice_is_marked_once() -> None:
    world = InMemoryStack()
    run(world, "1", make_contact(SAME))
    assert [run(world, event) for event in ("2", "3")] == ["gone", "gone"]
    assert (stored_record(world)["gone"], stored_record(world)["version"]) == (True, 2)


def test_contact_merged_into_another_is_gone() -> None:
    world = InMemoryStack()
    merged = world.crm.add(email="ada@example.com")
    world.crm.contacts["4419"] = replace(world.crm.contacts[merged], record_id=merged)

    assert run(world, "1") == "gone"
    assert stored_record(world)["gone"] is True


def test_marker_of_missing_contact_names_its_source() -> None:
    world = InMemoryStack()
    run(world, "1")

    row = stored_record(world)
    assert {name: row[name] for name in SOURCE} == SOURCE
    assert (row["gone"], row["version"]) == (True, 1)
    assert row["gone_at"] == "2026-11-16T03:00:00.000Z"


@pytest.mark.parametrize(
    ("result", "words"),
    [({"result": "skipped_stale"}, "skipped stale"), (None, "noted"), ({}, "noted")],
)
def test_success_summary_names_result(result: dict[str, str] | None, words: str) -> None:
    summary = SyncContact.success_summary(make_job(result=result))
    assert summary == f"The contact's event was handled: {words}."
