"""sync.contact: the newest version wins, whatever the order of delivery."""

import json
from typing import Any

import pytest

from oncely.services.outcomes import Duplicate, Finished, Invalid, NeedsReview, NothingSent
from oncely.testing.memory import MemoryRows
from tests.support.payments import Fault
from tests.support.world import World

OLD, NEW = "2026-11-16T03:00:00Z", "2026-11-16T04:00:00+01:00"  # NEW is the same instant as OLD
LATER = "2026-11-16T05:30:00+02:00"  # 03:30 UTC: later than OLD, though it sorts before nothing


def record(at: str = OLD, **properties: object) -> dict[str, object]:
    return {
        "id": "4419",
        "properties": {"email": "ada@example.com", **properties},
        "createdAt": "2026-01-01T00:00:00Z",
        "updatedAt": at,
        "archived": False,
    }


def contact(event_id: str, **more: object) -> dict[str, object]:
    return {
        "job": "sync.contact",
        "v": 1,
        "source": "hubspot",
        "source_id": "4419",
        "event_id": event_id,
        **more,
    }


def result(world: World, event_id: str) -> object:
    row = world.tools.rows.get("import_events", {"record_id": "hubspot#4419", "event_id": event_id})
    assert row is not None
    return row["result"]


def stored(world: World) -> Any:  # noqa: ANN401  # a row of any columns
    return world.tools.rows.get("records", {"record_id": "hubspot#4419"})


def test_new_then_old_then_new_again_is_one_row_and_three_events() -> None:
    world = World()

    world.run(contact("1", record=record(LATER, phone="2")))
    world.run(contact("2", record=record(OLD, phone="1")))
    world.run(contact("3", record=record(LATER, phone="2")))

    assert stored(world)["record"]["properties"]["phone"] == "2"
    assert stored(world)["version"] == 1
    events = [result(world, event) for event in ("1", "2", "3")]
    assert events == ["imported", "skipped_stale", "unchanged"]


def test_versions_are_instants_and_not_text() -> None:
    world = World()
    world.run(contact("1", record=record(OLD)))

    world.run(contact("2", record=record(NEW)))

    assert result(world, "2") == "unchanged"


def test_a_newer_version_updates_and_counts_up() -> None:
    world = World()
    world.run(contact("1", record=record(OLD, phone="1")))

    world.run(contact("2", record=record(LATER, phone="2")))

    assert result(world, "2") == "updated"
    assert stored(world)["version"] == 2


def test_the_same_version_with_other_content_is_a_conflict_and_changes_nothing() -> None:
    world = World()
    world.run(contact("1", record=record(OLD, phone="1")))

    world.run(contact("2", record=record(OLD, phone="2")))

    assert result(world, "2") == "conflict"
    assert stored(world)["record"]["properties"]["phone"] == "1"


def test_the_order_of_properties_does_not_matter() -> None:
    world = World()
    world.run(contact("1", record=record(OLD, a="1", b="2")))

    world.run(contact("2", record=record(OLD, b="2", a="1")))

    assert result(world, "2") == "unchanged"


def test_the_same_event_twice_is_one_event_row() -> None:
    world = World()
    first = world.run(contact("1", record=record()))

    second = world.run(contact("1", record=record()))

    assert isinstance(first, Finished)
    assert isinstance(second, Duplicate)
    assert second.result == first.result


def test_without_a_record_the_contact_is_fetched() -> None:
    world = World()
    contact_id = world.crm.add(email="ada@example.com")

    outcome = world.run({**contact("1"), "source_id": contact_id})

    assert isinstance(outcome, Finished)
    row = world.tools.rows.get("records", {"record_id": f"hubspot#{contact_id}"})
    assert row is not None
    assert row["source_id"] == contact_id


def test_a_contact_that_the_source_does_not_have_is_marked_and_kept() -> None:
    world = World()
    world.run(contact("1", record=record()))

    outcome = world.run(contact("2"))

    assert isinstance(outcome, Finished)
    assert result(world, "2") == "gone"
    assert stored(world)["gone"] is True
    assert stored(world)["record"]["properties"]["email"] == "ada@example.com"


def test_an_archived_contact_is_gone() -> None:
    world = World()
    world.run(contact("1", record=record()))

    world.run(contact("2", record={**record(LATER), "archived": True}))

    assert result(world, "2") == "gone"


def test_a_source_that_cannot_be_read_hands_the_message_back() -> None:
    world = World()
    world.crm.fails("fetch", Fault.TIMEOUT_BEFORE)

    outcome = world.run(contact("1"))

    assert isinstance(outcome, NothingSent)
    assert stored(world) is None


def test_a_row_that_moved_on_between_look_and_write_is_looked_at_again() -> None:
    world = World()
    rows = world.tools.rows
    assert isinstance(rows, MemoryRows)
    crm_id = world.crm.add(email="ada@example.com")
    key = {"record_id": f"hubspot#{crm_id}"}
    fetch = world.crm.fetch

    def fetch_while_another_imports(record_id: str) -> object:
        newer = {"version": 5, "source_updated_at": "2027-01-01T00:00:00.000Z", "checksum": "x"}
        rows.put("records", key, newer)
        return fetch(record_id)

    world.crm.fetch = fetch_while_another_imports
    message = {**contact("1"), "source_id": crm_id}
    first = world.run(message)
    world.crm.fetch = fetch

    second = world.run(message)

    assert isinstance(first, NothingSent)
    assert isinstance(second, Finished)
    assert second.result["result"] == "skipped_stale"
    assert rows.get("records", key) is not None


def test_three_hundred_odd_properties_survive_the_round_trip() -> None:
    world = World()
    odd: dict[str, object] = {f"property_{n}": f"wert {n} ✓ 例" for n in range(297)}
    odd |= {"empty": "", "nothing": None, "status": "a reserved word", "size": "another"}

    world.run(contact("1", record=record(OLD, **odd)))

    assert stored(world)["record"] == record(OLD, **odd)
    assert json.loads(json.dumps(stored(world)["record"])) == record(OLD, **odd)


@pytest.mark.parametrize(
    "wrong", [{"id": 4419}, {"id": "4419", "updatedAt": "yesterday"}, {"updatedAt": OLD}]
)
def test_a_record_without_its_id_or_its_time_is_refused(wrong: dict[str, object]) -> None:
    world = World()

    outcome = world.run(contact("1", record=wrong))

    assert isinstance(outcome, Invalid)


def test_a_record_of_another_contact_is_for_a_person() -> None:
    world = World()

    outcome = world.run(contact("1", record={**record(), "id": "5000"}))

    assert isinstance(outcome, NeedsReview)


def test_an_older_record_that_comes_late_does_not_undo_that_a_contact_is_gone() -> None:
    world = World()
    world.run(contact("1", record=record("2026-11-16T01:00:00Z")))
    world.run(contact("2", record={**record("2026-11-16T03:00:00Z"), "archived": True}))

    world.run(contact("3", record=record("2026-11-16T02:00:00Z", phone="2")))

    assert result(world, "3") == "skipped_stale"
    assert stored(world)["gone"] is True


def test_a_contact_that_is_first_seen_archived_leaves_a_mark() -> None:
    world = World()
    world.run(contact("1", record={**record(LATER), "archived": True}))

    world.run(contact("2", record=record(OLD)))

    assert result(world, "2") == "skipped_stale"
    assert stored(world)["gone"] is True


def test_a_contact_that_is_there_again_is_no_longer_gone() -> None:
    world = World()
    crm_id = world.crm.add(email="ada@example.com")
    message = {**contact("1"), "source_id": crm_id}
    world.run(message)
    key = {"record_id": f"hubspot#{crm_id}"}
    known = dict(world.tools.rows.get("records", key) or {})
    world.tools.rows.put("records", key, {**known, "gone": True})

    world.run({**message, "event_id": "2"})

    found = world.tools.rows.get("records", key)
    assert found is not None
    assert found["gone"] is False


def test_a_late_record_does_not_undo_that_the_source_was_asked_and_has_no_such_contact() -> None:
    world = World()
    world.run(contact("1", record=record("2026-11-16T01:00:00Z")))
    world.run(contact("2"))  # asked at 03:00, and gone

    world.run(contact("3", record=record("2026-11-16T02:00:00Z", phone="2")))

    assert result(world, "3") == "skipped_stale"
    assert stored(world)["gone"] is True


def test_a_contact_that_was_gone_before_we_knew_it_leaves_a_mark_for_late_records() -> None:
    world = World()
    world.run(contact("1"))

    world.run(contact("2", record=record("2026-11-16T02:00:00Z")))

    assert [result(world, event) for event in ("1", "2")] == ["gone", "skipped_stale"]
    assert stored(world)["gone"] is True


def test_a_record_that_changed_after_the_contact_was_gone_brings_it_back() -> None:
    world = World()
    world.run(contact("1"))

    world.run(contact("2", record=record("2026-11-16T03:00:01Z")))
    world.run(contact("3", record=record("2026-11-16T03:00:02Z")))

    assert [result(world, event) for event in ("2", "3")] == ["updated", "updated"]
    assert stored(world)["gone"] is False
    assert "gone_at" not in stored(world)


def test_a_contact_that_was_restored_as_it_was_is_seen_by_asking_the_source() -> None:
    world = World()
    crm_id = world.crm.add(email="ada@example.com")
    message = {**contact("1"), "source_id": crm_id}
    key = {"record_id": f"hubspot#{crm_id}"}
    there = world.crm.contacts.pop(crm_id)
    world.clock.move(hours=1)
    world.run(message)
    assert dict(world.tools.rows.get("records", key) or {})["gone"] is True
    world.crm.contacts[crm_id] = there

    world.run({**message, "event_id": "2"})

    assert dict(world.tools.rows.get("records", key) or {})["gone"] is False
