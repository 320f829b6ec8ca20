"""sync.contact: an archived, merged or missing contact is gone, unless a newer one is stored."""

from dataclasses import replace
from typing import Any

import pytest

from oncely.jobs.sync_contact import SyncContact
from oncely.run.outcomes import Finished
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.samples import make_job

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
