"""The gates: each slot once, one probe, and pauses that are not overwritten."""

from datetime import datetime, timedelta

from oncely.gates.gate import (
    SLOT_LEAD,
    GateState,
    Pause,
    PauseAction,
    PauseEntry,
    Slot,
    close_circuit,
    open_circuit,
    slots_from,
    take_probe,
)
from tests.conformance.samples import time_at
from tests.conformance.store_fixtures import StoreFixture

GATE = "acme:effects"
INTERVAL = timedelta(milliseconds=40)


def lease(db: StoreFixture, at: float, *, count: int = 10, wait: int = 20) -> tuple[Slot, ...]:
    now = time_at(0) + timedelta(seconds=at)
    latest = now + timedelta(seconds=wait)
    return db.gates.lease(GATE, count=count, interval=INTERVAL, now=now, latest=latest)


def slots(first: datetime, count: int = 10) -> tuple[Slot, ...]:
    return slots_from(first, INTERVAL, count)


def test_slots_of_leases_follow_each_other(db: StoreFixture) -> None:
    first, second = lease(db, 0), lease(db, 0.1, count=3)

    assert first == slots(time_at(0) + SLOT_LEAD)
    assert second == slots(time_at(0) + SLOT_LEAD + 10 * INTERVAL, 3)


def test_slots_that_passed_are_never_leased(db: StoreFixture) -> None:
    lease(db, 0)
    lease(db, 0)  # the gate is busy, so the next lease tries to continue its slots first
    assert lease(db, 3600) == slots(time_at(3600) + SLOT_LEAD)
    assert lease(db, 3600) == slots(time_at(3600) + SLOT_LEAD + 10 * INTERVAL)


def test_full_gate_leases_nothing_and_stays_as_it_is(db: StoreFixture) -> None:
    lease(db, 0, count=500)  # 20 s of slots
    assert lease(db, 0, wait=19) == ()
    assert lease(db, 0, wait=19) == ()
    assert lease(db, 1, wait=20) == slots(time_at(20) + SLOT_LEAD)


def test_slots_out_of_reach_are_not_waited_for(db: StoreFixture) -> None:
    """A process whose clock is a day ahead leased them."""
    lease(db, 24 * 3600)
    lease(db, 24 * 3600)
    assert lease(db, 0) == slots(time_at(0) + SLOT_LEAD)
    assert lease(db, 0) == slots(time_at(0) + SLOT_LEAD + 10 * INTERVAL)


def test_circuit_changes_once(db: StoreFixture) -> None:
    opened = open_circuit(GateState(), time_at(0))
    assert opened is not None
    assert db.gates.change_circuit(GATE, opened)
    assert not db.gates.change_circuit(GATE, opened)

    probing = take_probe(db.gates.read().state(GATE), time_at(60))
    assert probing is not None
    assert db.gates.change_circuit(GATE, probing)
    assert not db.gates.change_circuit(GATE, probing)

    first = lease(db, 60)[0]
    closed = close_circuit(db.gates.read().state(GATE), time_at(61))
    assert closed is not None
    assert db.gates.change_circuit(GATE, closed)
    found = db.gates.read().state(GATE)
    assert (found.opened_at, found.probe_at) == (None, None)
    assert found.outages == closed.outages
    assert lease(db, 60)[0].begins == first.begins + 10 * INTERVAL, "a change leaves the slots"


def entry(action: PauseAction, at: int) -> PauseEntry:
    return PauseEntry(at=time_at(at), action=action, actor="ada", reason="wrong prices")


def test_pause_and_resume_keep_audit_trail(db: StoreFixture) -> None:
    new = Pause(target="payment.charge")
    paused = new.with_entry(entry(PauseAction.PAUSE, 0))
    resumed = paused.with_entry(entry(PauseAction.RESUME, 60))

    assert db.gates.write_pause(paused)
    assert db.gates.read().pauses == {"payment.charge": paused}
    known = db.gates.read().pauses["payment.charge"]
    assert db.gates.write_pause(known.with_entry(resumed.entries[-1]))
    assert db.gates.read().pauses == {"payment.charge": resumed}


def test_pause_is_not_overwritten(db: StoreFixture) -> None:
    new = Pause(target="queue:payments")
    paused = new.with_entry(entry(PauseAction.PAUSE, 0))
    db.gates.write_pause(paused)
    resumed = db.gates.read().pauses["queue:payments"].with_entry(entry(PauseAction.RESUME, 60))
    assert db.gates.write_pause(resumed)

    assert not db.gates.write_pause(paused), "as if there were none"
    assert not db.gates.write_pause(resumed), "as it was before"
    assert db.gates.read().pauses == {"queue:payments": resumed}


def test_empty_table_holds_nothing(db: StoreFixture) -> None:
    found = db.gates.read()
    assert (found.gates, found.pauses) == ({}, {})
