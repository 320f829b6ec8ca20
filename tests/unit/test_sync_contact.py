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


def test_newest_version_wins_in_any_delivery_order() -> None:
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


def test_newer_version_updates_row_and_its_version() -> None:
    world = World()
    world.run(contact("1", record=record(OLD, phone="1")))

    world.run(contact("2", record=record(LATER, phone="2")))

    assert result(world, "2") == "updated"
    assert stored(world)["version"] == 2


def test_same_version_with_other_content_is_conflict() -> None:
    world = World()
    world.run(contact("1", record=record(OLD, phone="1")))

    world.run(contact("2", record=record(OLD, phone="2")))

    assert result(world, "2") == "conflict"
    assert stored(world)["record"]["properties"]["phone"] == "1"


def test_order_of_properties_does_not_matter() -> None:
    world = World()
    world.run(contact("1", record=record(OLD, a="1", b="2")))

    world.run(contact("2", record=record(OLD, b="2", a="1")))

    assert result(world, "2") == "unchanged"


def test_repeated_event_is_duplicate() -> None:
    world = World()
    first = world.run(contact("1", record=record()))

    second = world.run(contact("1", record=record()))

    assert isinstance(first, Finished)
    assert isinstance(second, Duplicate)
    assert second.result == first.result


def test_contact_is_fetched_when_message_has_no_record() -> None:
    world = World()
    contact_id = world.crm.add(email="ada@example.com")

    outcome = world.run({**contact("1"), "source_id": contact_id})

    assert isinstance(outcome, Finished)
    row = world.tools.rows.get("records", {"record_id": f"hubspot#{contact_id}"})
    assert row is not None
    assert row["source_id"] == contact_id


def test_missing_contact_is_marked_gone_and_kept() -> None:
    world = World()
    world.run(contact("1", record=record()))

    outcome = world.run(contact("2"))

    assert isinstance(outcome, Finished)
    assert result(world, "2") == "gone"
    assert stored(world)["gone"] is True
    assert stored(world)["record"]["properties"]["email"] == "ada@example.com"


def test_archived_contact_is_gone() -> None:
    world = World()
    world.run(contact("1", record=record()))

    world.run(contact("2", record={**record(LATER), "archived": True}))

    assert result(world, "2") == "gone"


def test_message_is_handed_back_when_source_is_unreachable() -> None:
    world = World()
    world.crm.fails("fetch", Fault.TIMEOUT_BEFORE)

    outcome = world.run(contact("1"))

    assert isinstance(outcome, NothingSent)
    assert stored(world) is None


def test_contact_is_retried_when_row_changes_before_write() -> None:
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


def test_unusual_properties_survive_round_trip() -> None:
    world = World()
    odd: dict[str, object] = {f"property_{n}": f"wert {n} ✓ 例" for n in range(297)}
    odd |= {"empty": "", "nothing": None, "status": "a reserved word", "size": "another"}

    world.run(contact("1", record=record(OLD, **odd)))

    assert stored(world)["record"] == record(OLD, **odd)
    assert json.loads(json.dumps(stored(world)["record"])) == record(OLD, **odd)


@pytest.mark.parametrize(
    "wrong", [{"id": 4419}, {"id": "4419", "updatedAt": "yesterday"}, {"updatedAt": OLD}]
)
def test_record_without_id_or_time_is_invalid(wrong: dict[str, object]) -> None:
    world = World()

    outcome = world.run(contact("1", record=wrong))

    assert isinstance(outcome, Invalid)


def test_record_of_other_contact_needs_review() -> None:
    world = World()

    outcome = world.run(contact("1", record={**record(), "id": "5000"}))

    assert isinstance(outcome, NeedsReview)


def test_older_record_keeps_archived_contact_gone() -> None:
    world = World()
    world.run(contact("1", record=record("2026-11-16T01:00:00Z")))
    world.run(contact("2", record={**record("2026-11-16T03:00:00Z"), "archived": True}))

    world.run(contact("3", record=record("2026-11-16T02:00:00Z", phone="2")))

    assert result(world, "3") == "skipped_stale"
    assert stored(world)["gone"] is True


def test_contact_first_seen_archived_stays_gone() -> None:
    world = World()
    world.run(contact("1", record={**record(LATER), "archived": True}))

    world.run(contact("2", record=record(OLD)))

    assert result(world, "2") == "skipped_stale"
    assert stored(world)["gone"] is True


def test_found_contact_is_no_longer_gone() -> None:
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


def test_older_record_keeps_missing_contact_gone() -> None:
    world = World()
    world.run(contact("1", record=record("2026-11-16T01:00:00Z")))
    world.run(contact("2"))  # asked at 03:00, and gone

    world.run(contact("3", record=record("2026-11-16T02:00:00Z", phone="2")))

    assert result(world, "3") == "skipped_stale"
    assert stored(world)["gone"] is True


def test_contact_first_seen_missing_stays_gone() -> None:
    world = World()
    world.run(contact("1"))

    world.run(contact("2", record=record("2026-11-16T02:00:00Z")))

    assert [result(world, event) for event in ("1", "2")] == ["gone", "skipped_stale"]
    assert stored(world)["gone"] is True


def test_newer_record_brings_gone_contact_back() -> None:
    world = World()
    world.run(contact("1"))

    world.run(contact("2", record=record("2026-11-16T03:00:01Z")))
    world.run(contact("3", record=record("2026-11-16T03:00:02Z")))

    assert [result(world, event) for event in ("2", "3")] == ["updated", "updated"]
    assert stored(world)["gone"] is False
    assert "gone_at" not in stored(world)


def test_restored_contact_is_found_by_fetching_source() -> None:
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
