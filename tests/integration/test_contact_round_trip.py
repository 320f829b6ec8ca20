"""An unusual contact survives DynamoDB unchanged."""

from datetime import datetime
from typing import Any

from oncely.providers.interfaces import CrmRecord
from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack
from tests.support.outcomes import is_finished

RESERVED = ("status", "size", "name", "data", "values", "hash", "ttl", "#n0", ":v0", "a.b")


def test_odd_properties_round_trip_unchanged(dynamo: DynamoFixture) -> None:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    odd: dict[str, object] = {f"property_{n}": f"wert {n} ✓ 例 🎉" for n in range(287)}
    odd |= {"empty": "", "nothing": None, "blank": " ", **dict.fromkeys(RESERVED, "reserved")}
    times = {"createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-11-16T03:00:00Z"}
    record: dict[str, Any] = {"id": "4419", "properties": odd, **times, "archived": False}
    at = datetime.fromisoformat(times["updatedAt"])
    fetched = CrmRecord(record_id="4419", updated_at=at, archived=False, body=record)
    world.crm.get_contact = lambda _: fetched
    source = {"source": "hubspot", "source_id": "4419", "event_id": "1"}

    outcome = world.run({"job": "sync.contact", "v": 1, **source})

    stored = world.rows.get("records", {"record_id": "hubspot#4419"})
    assert is_finished(outcome)
    assert len(odd) == 300
    assert stored is not None
    assert stored["record"] == record


def test_gone_contact_leaves_no_data_in_any_row(dynamo: DynamoFixture) -> None:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    email = "ada@example.com"
    contact_id = world.crm.add(email=email)
    event = {"job": "sync.contact", "v": 1, "source": "hubspot", "source_id": contact_id}
    world.run({**event, "event_id": "1"})
    key = {"record_id": f"hubspot#{contact_id}"}
    assert email in repr(world.rows.get("records", key))
    world.crm.archive(contact_id)

    outcome = world.run({**event, "event_id": "2"})

    assert is_finished(outcome)
    assert outcome.result == {"result": "gone", "removed_version": 1}
    tables = (dynamo.jobs_table, *dynamo.tables.values())
    rows = [row for name in tables for row in dynamo.admin.scan(TableName=name)["Items"]]
    assert len(rows) == 5, "two jobs, two import events and a tombstone"
    assert email not in repr(rows)
    assert all(row["expires_at"]["N"].isdecimal() for row in rows), "whole seconds, for TTL"
