"""A message says nothing about a contact: we store what we fetched, and push what we changed."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.jobs.sync_push import SyncPush
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack
from tests.support.outcomes import is_finished

HOUR = timedelta(hours=1)
CONTACT_ID = "1"
RECORD = {"record_id": f"hubspot#{CONTACT_ID}"}
EMAIL, FORGED = "real@example.com", "forged@example.com"


@pytest.fixture
def world() -> InMemoryStack:
    """HubSpot has one contact, updated at START; an hour later."""
    world = InMemoryStack()
    assert world.crm.add(email=EMAIL) == CONTACT_ID
    world.clock.time += HOUR
    return world


def message(event_id: str, **more: object) -> dict[str, object]:
    source = {"source": "hubspot", "source_id": CONTACT_ID, "event_id": event_id}
    return {"job": "sync.contact", "v": 1, **source, **more}


def forged(at: Any, *, archived: bool = False) -> dict[str, object]:  # noqa: ANN401  # a time
    fields = {"id": CONTACT_ID, "updatedAt": at.isoformat(), "archived": archived}
    return {"record": {**fields, "properties": {"email": FORGED}}}


def run(world: InMemoryStack, event_id: str, **more: object) -> object:
    outcome = world.run(message(event_id, **more))
    assert is_finished(outcome)
    return outcome.result["result"]


def push(world: InMemoryStack, version: int) -> Any:  # noqa: ANN401  # an outcome of any type
    message = {"job": "sync.push", "v": 1, "target": "hubspot", **RECORD}
    return world.run({**message, "version": version})


def stored(world: InMemoryStack) -> Any:  # noqa: ANN401  # a row of any columns
    return world.rows.get("records", RECORD)


def stored_email(world: InMemoryStack) -> object:
    return stored(world)["record"]["properties"]["email"]


def crm_properties(world: InMemoryStack) -> Any:  # noqa: ANN401  # JSON
    return world.crm.contacts[CONTACT_ID].body["properties"]


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("archived", [True, False])
@pytest.mark.parametrize("age", [2 * HOUR, timedelta(0), -HOUR], ids=["old", "now", "future"])
def test_record_of_message_only_causes_fetch(
    world: InMemoryStack, age: timedelta, *, archived: bool, is_stored: bool
) -> None:
    if is_stored:
        run(world, "0")

    result = run(world, "1", **forged(world.clock.now() - age, archived=archived))

    assert result == ("unchanged" if is_stored else "imported")
    assert (stored_email(world), stored(world)["version"]) == (EMAIL, 1)
    assert stored(world)["gone"] is False


def test_record_of_other_contact_only_causes_fetch(world: InMemoryStack) -> None:
    other = {"record": {"id": "7", "anything": [1, None]}}
    assert run(world, "1", **other) == "imported"
    assert stored_email(world) == EMAIL


def test_forged_record_keeps_no_newer_version_out(world: InMemoryStack) -> None:
    run(world, "1", **forged(world.clock.now() + HOUR))
    world.crm.update(CONTACT_ID, email="new@example.com")
    assert run(world, "2") == "updated"
    assert stored_email(world) == "new@example.com"


@pytest.mark.parametrize("is_stored", [True, False])
def test_forged_record_is_not_pushed(world: InMemoryStack, *, is_stored: bool) -> None:
    """The two messages that once overwrote any contact of the CRM."""
    if is_stored:
        run(world, "0")
    before = world.crm.contacts[CONTACT_ID]
    run(world, "1", **forged(world.clock.now()))

    push(world, 1)
    push(world, 2)

    assert world.crm.contacts[CONTACT_ID] == before
    assert world.crm.writes.total() == 0


def test_row_does_not_keep_record_of_message(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(message("1", **forged(START)))
    world.crm.get_contact = lambda _: replace(world.crm.contacts[CONTACT_ID], record_id="7")
    world.run(message("1", **forged(START)))

    job = world.job(JobKey("sync.contact:hubspot:1:1"))
    assert (job.status, job.message) == (Status.FINISHED, message("1"))
    assert FORGED not in repr(world.outbox.sent)


def test_imported_version_is_not_pushed_back(world: InMemoryStack) -> None:
    """HubSpot's contact changed after it was imported, and nobody changed our copy."""
    run(world, "1")
    world.crm.update(CONTACT_ID, email="new@example.com")
    world.crm.calls.clear()

    outcome = push(world, 1)

    assert is_finished(outcome)
    assert outcome.result == {"imported": True}
    assert world.crm.calls == []
    assert crm_properties(world)["email"] == "new@example.com"
    job = world.job(JobKey("sync.push:hubspot:hubspot#1:1"))
    assert SyncPush.success_summary(job) == "Not pushed: this version was imported from HubSpot."


def test_own_change_of_imported_record_is_pushed(world: InMemoryStack) -> None:
    run(world, "1")
    changed = {"properties": {"email": "changed@example.com"}}
    row = {**stored(world), "record": changed, "version": 2}
    world.rows.put("records", RECORD, row)
    world.clock.time += HOUR

    assert is_finished(push(world, 2))

    assert crm_properties(world)["email"] == "changed@example.com"
    # The version that HubSpot then has is imported like any other, and not pushed back.
    assert run(world, "2") == "updated"
    assert push(world, 3).result == {"imported": True}
    assert world.crm.writes.total() == 1
