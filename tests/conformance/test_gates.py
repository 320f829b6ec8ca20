"""The gates: each slot once, one probe, and pauses that are not overwritten."""

from datetime import timedelta

from oncely.gates.rules import (
    SLOT_LEAD,
    GateState,
    Pause,
    PauseAction,
    PauseEntry,
    Slots,
    close_circuit,
    open_circuit,
    take_probe,
)
from tests.conformance.samples import time_at
from tests.conformance.store_fixtures import StoreFixture

GATE = "acme:effects"
INTERVAL = timedelta(milliseconds=40)


def lease(db: StoreFixture, at: float, *, count: int = 10, wait: int = 20) -> Slots | None:
    now = time_at(0) + timedelta(seconds=at)
    latest = now + timedelta(seconds=wait)
    return db.gates.lease(GATE, count=count, interval=INTERVAL, now=now, latest=latest)[1]


def test_slots_of_leases_follow_each_other(db: StoreFixture) -> None:
    first, second = lease(db, 0), lease(db, 0.1, count=3)

    assert first == Slots(time_at(0) + SLOT_LEAD, INTERVAL, 10)
    assert second == Slots(time_at(0) + SLOT_LEAD + 10 * INTERVAL, INTERVAL, 3)


def test_slots_that_passed_are_never_leased(db: StoreFixture) -> None:
    lease(db, 0)
    assert lease(db, 3600) == Slots(time_at(3600) + SLOT_LEAD, INTERVAL, 10)
    assert lease(db, 3600) == Slots(time_at(3600) + SLOT_LEAD + 10 * INTERVAL, INTERVAL, 10)


def test_full_gate_leases_nothing_and_stays_as_it_is(db: StoreFixture) -> None:
    lease(db, 0, count=500)  # 20 s of slots
    assert lease(db, 0, wait=19) is None
    assert lease(db, 0, wait=19) is None
    assert lease(db, 1, wait=20) == Slots(time_at(20) + SLOT_LEAD, INTERVAL, 10)


def test_slots_out_of_reach_are_not_waited_for(db: StoreFixture) -> None:
    """A process whose clock is a day ahead leased them."""
    lease(db, 24 * 3600)
    lease(db, 24 * 3600)
    assert lease(db, 0) == Slots(time_at(0) + SLOT_LEAD, INTERVAL, 10)
    assert lease(db, 0) == Slots(time_at(0) + SLOT_LEAD + 10 * INTERVAL, INTERVAL, 10)


def test_lease_returns_circuit(db: StoreFixture) -> None:
    opened = open_circuit(GateState(), time_at(0))
    assert opened is not None
    assert db.gates.change_circuit(GATE, GateState(), opened)

    now = time_at(1)
    state, slots = db.gates.lease(GATE, count=1, interval=INTERVAL, now=now, latest=now)

    assert slots is not None
    assert state.opened_at == time_at(0)
    assert state.next_slot == slots.first + INTERVAL


def test_circuit_changes_once(db: StoreFixture) -> None:
    opened = open_circuit(GateState(), time_at(0))
    assert opened is not None
    assert db.gates.change_circuit(GATE, GateState(), opened)
    assert not db.gates.change_circuit(GATE, GateState(), opened)

    probing = take_probe(opened, time_at(60))
    assert probing is not None
    assert db.gates.change_circuit(GATE, opened, probing)
    assert not db.gates.change_circuit(GATE, opened, probing)

    lease(db, 60)
    closed = close_circuit(probing, time_at(61))
    assert closed is not None
    assert db.gates.change_circuit(GATE, probing, closed)
    found = db.gates.read().gates[GATE]
    assert found.next_slot is not None  # of the lease
    assert (found.opened_at, found.probe_at, found.closed_at) == (None, None, time_at(61))
    assert found.outages == closed.outages


def entry(action: PauseAction, at: int) -> PauseEntry:
    return PauseEntry(at=time_at(at), action=action, actor="ada", reason="wrong prices")


def test_pause_and_resume_keep_audit_trail(db: StoreFixture) -> None:
    new = Pause(target="payment.charge")
    paused = new.with_entry(entry(PauseAction.PAUSE, 0))
    resumed = paused.with_entry(entry(PauseAction.RESUME, 60))

    assert db.gates.write_pause(None, paused)
    assert db.gates.read().pauses == {"payment.charge": paused}
    assert db.gates.write_pause(db.gates.read().pauses["payment.charge"], resumed)
    assert db.gates.read().pauses == {"payment.charge": resumed}


def test_pause_is_not_overwritten(db: StoreFixture) -> None:
    new = Pause(target="queue:payments")
    paused = new.with_entry(entry(PauseAction.PAUSE, 0))
    resumed = paused.with_entry(entry(PauseAction.RESUME, 60))
    db.gates.write_pause(None, paused)
    before = db.gates.read().pauses["queue:payments"]
    db.gates.write_pause(before, resumed)

    assert not db.gates.write_pause(None, paused)
    assert not db.gates.write_pause(before, resumed)
    assert db.gates.read().pauses == {"queue:payments": resumed}


def test_empty_table_holds_nothing(db: StoreFixture) -> None:
    found = db.gates.read()
    assert (found.gates, found.pauses) == ({}, {})
