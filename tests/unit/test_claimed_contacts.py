"""sync.contact with a record of its own: a message cannot outrank what HubSpot returns."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.jobs.sync_contact import SOURCE_CLOCK_SKEW, properties_checksum
from oncely.providers.interfaces import CrmRecord
from oncely.run.outcomes import Conflict, Finished
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def world() -> InMemoryStack:
    """HubSpot has one contact, updated at START; an hour later."""
    world = InMemoryStack()
    world.crm.clock = world.clock
    assert world.crm.add(email="real@example.com") == CONTACT_ID
    world.clock.time += HOUR
    return world


CONTACT_ID = "1"


def message(event_id: str, **more: object) -> dict[str, object]:
    source = {"source": "hubspot", "source_id": CONTACT_ID, "event_id": event_id}
    return {"job": "sync.contact", "v": 1, **source, **more}


def forged(at: Any, *, archived: bool = False) -> dict[str, object]:  # noqa: ANN401  # a time
    properties = {"email": "forged@example.com"}
    fields = {"id": CONTACT_ID, "updatedAt": at.isoformat(), "archived": archived}
    return {"record": {**fields, "properties": properties}}


def run(world: InMemoryStack, event_id: str, **more: object) -> object:
    outcome = world.run(message(event_id, **more))
    assert isinstance(outcome, Finished)
    return outcome.result["result"]


def stored(world: InMemoryStack) -> Any:  # noqa: ANN401  # a row of any columns
    return world.dependencies.rows.get("records", {"record_id": f"hubspot#{CONTACT_ID}"})


def stored_email(world: InMemoryStack) -> object:
    return stored(world)["record"]["properties"]["email"]


def test_record_from_future_is_rejected(world: InMemoryStack) -> None:
    late = world.clock.now() + SOURCE_CLOCK_SKEW + SECOND

    outcome = world.run(message("1", **forged(late)))

    assert isinstance(outcome, Conflict)
    assert "updatedAt is in the future" in outcome.reason
    assert stored(world) is None
    assert len(world.alerts.sent) == 1
    # The event is still free for the right message.
    assert run(world, "1") == "imported"


def test_record_within_clock_skew_is_imported(world: InMemoryStack) -> None:
    assert run(world, "1", **forged(world.clock.now() + SOURCE_CLOCK_SKEW)) == "imported"


@pytest.mark.parametrize("first_fetched", [True, False])
def test_fetched_record_replaces_newer_claimed_one(
    world: InMemoryStack, *, first_fetched: bool
) -> None:
    if first_fetched:
        run(world, "0")
    run(world, "1", **forged(world.clock.now()))
    assert (stored_email(world), stored(world)["fetched"]) == ("forged@example.com", False)

    assert run(world, "2") == "updated"

    assert (stored_email(world), stored(world)["fetched"]) == ("real@example.com", True)
    assert stored(world)["source_updated_at"].startswith("2026-11-16T03:00:00")


def test_fetched_record_replaces_claimed_one_of_same_time(world: InMemoryStack) -> None:
    run(world, "1", **forged(START))
    assert run(world, "2") == "updated"
    assert stored_email(world) == "real@example.com"


def test_fetched_record_keeps_equal_claimed_one(world: InMemoryStack) -> None:
    contact = world.crm.contacts[CONTACT_ID]
    run(world, "1", record=dict(contact.body))
    assert stored(world)["checksum"] == properties_checksum(contact.body)

    assert run(world, "2") == "unchanged"
    assert stored(world)["version"] == 1


def test_older_fetched_record_does_not_replace_fetched_one(world: InMemoryStack) -> None:
    run(world, "1")
    contact = world.crm.contacts[CONTACT_ID]
    world.crm.contacts[CONTACT_ID] = replace(contact, updated_at=START - HOUR)
    assert run(world, "2") == "skipped_stale"


def test_older_claimed_record_does_not_replace_fetched_one(world: InMemoryStack) -> None:
    run(world, "1")
    assert run(world, "2", **forged(START - HOUR)) == "skipped_stale"
    assert run(world, "3", **forged(START)) == "conflict"
    assert stored_email(world) == "real@example.com"


def test_fetched_archived_record_replaces_newer_claimed_one(world: InMemoryStack) -> None:
    run(world, "1", **forged(world.clock.now()))
    contact: CrmRecord = world.crm.contacts[CONTACT_ID]
    world.crm.get_contact = lambda _: replace(contact, archived=True)

    assert run(world, "2") == "gone"
    assert (stored(world)["gone"], stored(world)["fetched"]) == (True, True)


def test_fetched_record_undoes_claimed_archiving(world: InMemoryStack) -> None:
    run(world, "1")
    assert run(world, "2", **forged(world.clock.now(), archived=True)) == "gone"
    assert run(world, "3") == "updated"
    assert (stored(world)["gone"], stored_email(world)) == (False, "real@example.com")


def test_missing_contact_outranks_claimed_archiving(world: InMemoryStack) -> None:
    run(world, "1", **forged(START, archived=True))
    del world.crm.contacts[CONTACT_ID]

    assert run(world, "2") == "gone"
    assert run(world, "3", **forged(START + SECOND)) == "skipped_stale"
    assert stored(world)["gone"] is True
