"""Forged items of the gate table stop no provider, and no pause is overlooked."""

from datetime import timedelta

import pytest

from oncely.core.row_items import serialize
from oncely.gates.gate import (
    SLOT_LEAD,
    Circuit,
    Pause,
    PauseAction,
    PauseEntry,
    open_circuit,
    slots_from,
)
from oncely.gates.table import PAUSE_KEY_PREFIX, GateTable
from tests.conformance.samples import time_at
from tests.support.dynamo import DynamoFixture

GATE = "acme:effects"
INTERVAL = timedelta(milliseconds=40)
ENTRY = {"at": "2026-11-16T03:00:00.000Z", "action": "pause", "actor": "ada", "reason": "prices"}


def put(dynamo: DynamoFixture, name: str, **fields: object) -> GateTable:
    table = dynamo.gates()
    item = {"gate": serialize(name)} | {name: serialize(value) for name, value in fields.items()}
    table.client.put_item(TableName=table.table, Item=item)
    return table


@pytest.mark.parametrize("next_slot", [10**30, -5, 0.5, None])
def test_next_slot_is_replaced_by_next_lease(dynamo: DynamoFixture, next_slot: object) -> None:
    table, now = put(dynamo, GATE, next_slot=next_slot), time_at(0)
    table.read()
    slots = table.lease(GATE, count=1, interval=INTERVAL, now=now, latest=now)
    assert slots == slots_from(now + SLOT_LEAD, INTERVAL, 1)


@pytest.mark.parametrize(
    "forged",
    [
        5,
        0.1,
        "open",
        ["2026-11-16T03:00:00.000Z"],
        {"opened_at": 5},
        {"opened_at": "2026-11-16T03:00:00.000Z", "probe_at": "tomorrow"},
        {"outages": 7},
        {"outages": [["2026-11-16T03:00:00.000Z"]]},
    ],
)
def test_unreadable_circuit_is_closed_until_it_is_replaced(
    dynamo: DynamoFixture, forged: object
) -> None:
    put(dynamo, "other:effects", next_slot=1)
    table, now = put(dynamo, GATE, circuit=forged), time_at(0)

    found = table.read()

    assert set(found.gates) == {"other:effects", GATE}
    assert found.state(GATE).circuit(now) is Circuit.CLOSED
    leased = table.lease(GATE, count=1, interval=INTERVAL, now=now, latest=now)
    assert leased == slots_from(now + SLOT_LEAD, INTERVAL, 1), "at the rate of all functions"
    opened = open_circuit(found.state(GATE), now)
    assert opened is not None
    assert table.change_circuit(GATE, opened)
    assert table.read().state(GATE).circuit(now) is Circuit.OPEN


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"entries": 1, "more": 7},
        {"entries": [{**ENTRY, "at": "today"}]},
        {"entries": [{**ENTRY, "action": "stop"}]},
        {"entries": [ENTRY["at"]]},
    ],
)
def test_unreadable_pause_holds_until_it_is_resumed(
    dynamo: DynamoFixture, forged: dict[str, object]
) -> None:
    put(dynamo, f"{PAUSE_KEY_PREFIX}sync.push", entries=[ENTRY])
    table = put(dynamo, f"{PAUSE_KEY_PREFIX}payment.charge", **forged)

    found = table.read().pauses

    assert found["sync.push"].current is not None
    paused = found["payment.charge"]
    assert paused.current is not None
    assert "cannot be read" in paused.current.reason
    resume = PauseEntry(at=time_at(0), action=PauseAction.RESUME, actor="bo", reason="")
    resumed = paused.with_entry(resume)
    assert table.write_pause(resumed)
    assert table.read().pauses["payment.charge"].current is None
    assert not table.write_pause(resumed), "another operator was first"


def test_more_pauses_than_a_page_are_all_read(dynamo: DynamoFixture) -> None:
    table = dynamo.gates()
    entries = [{**ENTRY, "reason": "x" * 60_000}] * 6
    for number in range(4):
        put(dynamo, f"{PAUSE_KEY_PREFIX}queue:{number}", entries=entries)
    assert set(table.read().pauses) == {f"queue:{number}" for number in range(4)}
    assert dynamo.calls.by_operation()["Scan"] > 1


def test_table_of_another_stack_holds_nothing_that_is_not_paused_there(
    dynamo: DynamoFixture,
) -> None:
    table = put(dynamo, "pause:payment.charge", entries=[], job_types=["sync.push"])
    assert table.read().pauses == {"payment.charge": Pause(target="payment.charge")}
