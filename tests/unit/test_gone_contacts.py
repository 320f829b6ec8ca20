"""A contact that is gone at its source: its record is removed, and stays removed."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.jobs.sync_push import SyncPush
from oncely.providers.interfaces import CrmRecord
from oncely.testing.memory_aws.calls import perform_directly
from tests.support.crash_points import InterruptingPort, interrupt_after
from tests.support.fakes import START
from tests.support.in_memory_stack import TABLE_RETENTION, InMemoryStack
from tests.support.outcomes import is_finished, is_retried, waits_for_rows
from tests.support.provider_fault import ProviderFault
from tests.unit.samples import make_job

EMAIL = "ada@example.com"
ID = "1"
RECORD = {"record_id": f"hubspot#{ID}"}
# What a tombstone may hold: ids, versions and times.
TOMBSTONE = {"record_id", "source", "source_id", "source_updated_at", "version"}
TOMBSTONE |= {"gone", "expires_at"}


@pytest.fixture
def world() -> InMemoryStack:
    """HubSpot has one contact, which was imported; an hour later."""
    world = InMemoryStack()
    assert world.crm.add(email=EMAIL) == ID
    run(world, "first")
    world.clock.advance(hours=1)
    return world


def message(event_id: str) -> dict[str, object]:
    event = {"source": "hubspot", "source_id": ID, "event_id": event_id}
    return {"job": "sync.contact", "v": 1, **event}


def run(world: InMemoryStack, event_id: str) -> object:
    outcome = world.run(message(event_id))
    assert is_finished(outcome)
    return outcome.result["result"]


def stored(world: InMemoryStack) -> Mapping[str, Any]:
    row: Mapping[str, Any] | None = world.rows.get("records", RECORD)
    assert row is not None
    return row


def delete_contact(world: InMemoryStack) -> None:
    world.crm.archive(ID)


def archive_contact(world: InMemoryStack) -> None:
    contact: CrmRecord = world.crm.contacts[ID]
    world.crm.get_contact = lambda _: replace(contact, archived=True)


@pytest.mark.parametrize("leave", [delete_contact, archive_contact])
def test_record_of_gone_contact_is_removed(world: InMemoryStack, leave: Any) -> None:  # noqa: ANN401  # a function
    leave(world)

    assert run(world, "2") == "gone"

    assert EMAIL not in repr(stored(world))
    assert stored(world).keys() <= TOMBSTONE
    assert (stored(world)["gone"], stored(world)["version"]) == (True, 2)
    expires_at = (world.clock.now() + TABLE_RETENTION).timestamp()
    assert stored(world)["expires_at"] == expires_at


def test_removal_is_evidence_on_job(world: InMemoryStack) -> None:
    delete_contact(world)
    run(world, "2")

    job = world.job("sync.contact:hubspot:1:2")
    assert job.result == {"result": "gone", "removed_version": 1}
    assert (job.evidence[-1].event, job.status) == (Event.CONFIRM, Status.FINISHED)
    assert "hubspot#1: gone; version 1 of its record was removed" in job.evidence[-1].reason


def test_contact_that_was_never_stored_leaves_tombstone() -> None:
    world = InMemoryStack()
    assert run(world, "1") == "gone"
    assert stored(world).keys() <= TOMBSTONE
    assert world.job("sync.contact:hubspot:1:1").result == {"result": "gone"}


def test_late_fetch_does_not_bring_contact_back(world: InMemoryStack) -> None:
    """A worker has fetched the contact and freezes; another one finds that it is gone."""

    def vanish() -> None:
        world.crm = crm
        delete_contact(world)
        run(world, "2")

    crm = world.crm
    crm.update(ID, phone="1")
    world.crm = InterruptingPort(crm, "get_contact", vanish)
    late = world.run(message("late"))

    assert is_retried(late)
    assert stored(world).keys() <= TOMBSTONE
    assert run(world, "late") == "gone"


def test_late_finding_does_not_remove_newer_version(world: InMemoryStack) -> None:
    """A worker found that the contact is gone. Then HubSpot has it again, and it changes."""

    def come_back() -> None:
        world.crm = crm
        crm.restore(ID)
        crm.update(ID, phone="1")
        run(world, "2")

    crm = world.crm
    delete_contact(world)
    world.crm = InterruptingPort(crm, "get_contact", come_back)
    late = world.run(message("late"))

    assert is_retried(late)
    assert stored(world)["record"]["properties"]["phone"] == "1"
    assert run(world, "late") == "unchanged"


def test_contact_that_is_back_does_not_expire(world: InMemoryStack) -> None:
    delete_contact(world)
    run(world, "2")
    world.crm.restore(ID)

    assert run(world, "3") == "updated"

    assert stored(world)["gone"] is False
    assert "expires_at" not in stored(world)
    assert stored(world)["record"]["properties"]["email"] == EMAIL


def test_record_that_a_producer_put_onto_tombstone_is_removed(world: InMemoryStack) -> None:
    delete_contact(world)
    run(world, "2")
    world.rows.put("records", RECORD, {**stored(world), "record": {"email": EMAIL}})

    assert run(world, "3") == "gone"
    assert stored(world).keys() <= TOMBSTONE


def test_import_event_expires(world: InMemoryStack) -> None:
    event = world.rows.get("import_events", {**RECORD, "event_id": "first"})
    assert event is not None
    assert event["expires_at"] == (START + TABLE_RETENTION).timestamp()


# Pushing a record that is gone.

PUSH = {"job": "sync.push", "v": 1, "target": "hubspot", **RECORD}


def change_record(world: InMemoryStack) -> None:
    """The shop changes it, so that there is a second version to push."""
    world.rows.put("records", RECORD, {**stored(world), "version": 2})


def push_key(version: int) -> JobKey:
    return JobKey(f"sync.push:hubspot:hubspot#1:{version}")


@pytest.mark.parametrize("version", [1, 2])
def test_push_of_gone_record_ends_without_call(world: InMemoryStack, version: int) -> None:
    delete_contact(world)
    run(world, "2")
    world.crm.calls.clear()

    outcome = world.run({**PUSH, "version": version})

    assert is_finished(outcome)
    assert outcome.result == {"gone": True}
    assert world.crm.calls == []
    job = world.job(push_key(version))
    assert (job.due_at, SyncPush.success_summary(job)) == (
        None,
        "Not pushed: the record is gone at its source.",
    )


def test_push_of_later_version_waits_for_gone_record(world: InMemoryStack) -> None:
    delete_contact(world)
    run(world, "2")
    assert waits_for_rows(world.run({**PUSH, "version": 3}))


def test_push_to_gone_contact_does_not_create_it_again(world: InMemoryStack) -> None:
    """The record is not marked yet: the sync.contact that follows removes it."""
    change_record(world)
    delete_contact(world)

    outcome = world.run({**PUSH, "version": 2})
    assert is_finished(outcome)
    assert outcome.result == {"gone": True, "missing_crm_id": ID}
    assert (world.crm.contacts, world.crm.writes.total()) == ({}, 0)

    assert world.publisher().publish(push_key(2))
    follow_up = json.loads(world.outbox.sent.pop())
    assert follow_up == message("push-2")
    assert is_finished(world.run(follow_up))
    assert stored(world).keys() - {"push_job", "push_until"} <= TOMBSTONE


def test_record_gone_before_reservation_is_not_pushed(world: InMemoryStack) -> None:
    def vanish() -> None:
        if ID in world.crm.contacts:
            world.aws.intercept = perform_directly
            delete_contact(world)
            run(world, "2")

    change_record(world)
    interrupt_after(world.aws, "get_item", vanish, table="records")

    outcome = world.run({**PUSH, "version": 2})

    assert is_finished(outcome)
    assert outcome.result == {"gone": True}
    assert "upsert_contact" not in dict(world.crm.calls)


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_unknown_push_ends_after_record_is_gone(world: InMemoryStack, fault: ProviderFault) -> None:
    change_record(world)
    world.crm.fail_next("upsert_contact", fault)
    world.run({**PUSH, "version": 2})
    world.crm.archive(ID)
    run(world, "2")

    job = world.run_until_idle(push_key(2))

    assert (job.status, job.result) == (Status.FINISHED, {"gone": True})
    assert world.crm.writes.total() <= 1


def test_summary_of_pushed_record_names_contact() -> None:
    assert "contact 1 has this version" in SyncPush.success_summary(make_job(result={"crm_id": ID}))
