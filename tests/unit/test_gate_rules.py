"""The rules of a gate: its slots, its circuit breaker, and pauses. Time is an argument."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from oncely.core.profiles import MAX_RATE, MIN_RATE, EndpointGroup
from oncely.gates.gate import (
    FAILURE_WINDOW,
    FIRST_PROBE_AFTER,
    MAX_CLOCK_ERROR,
    MAX_PERIODS,
    MIN_FAILURES,
    PROBE_LEASE,
    SLOT_LEAD,
    Circuit,
    GateSnapshot,
    GateState,
    Pause,
    PauseAction,
    PauseEntry,
    Period,
    close_circuit,
    farthest_slot,
    gate_name,
    must_open,
    open_circuit,
    slots_from,
    take_probe,
    total_time,
)
from oncely.gates.table import GateTable
from oncely.operate.own_tables import GATES as GATES_TABLE
from oncely.plugins.provider import ProviderSettings
from oncely.providers.stripe.plugin import STRIPE
from tests.support.stored_rows import new_account

NOW = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
EFFECTS, LOOKUPS = EndpointGroup
NAME = "acme:effects"
TARGETS = ("payment.charge", "queue:payments", "provider:acme")
GATES = [gate_name("acme", group) for group in EndpointGroup]


def gate_table() -> GateTable:
    return GateTable(new_account().clients.dynamodb, GATES_TABLE)


@given(
    rate=st.integers(1, 200),
    arrivals=st.lists(
        st.tuples(
            st.integers(0, 2_000_000),  # microseconds since the lease before
            st.integers(1, 10),  # slots
            st.floats(0, 0.99),  # how late in its interval a slot is used
        ),
        max_size=60,
    ),
)
def test_no_second_has_more_requests_than_limit_and_one(
    rate: int, arrivals: Sequence[tuple[int, int, float]]
) -> None:
    table, now, sent = gate_table(), NOW, []
    interval = timedelta(seconds=1 / rate)
    for pause, count, lateness in arrivals:
        now += timedelta(microseconds=pause)
        latest = now + 20 * SECOND
        for slot in table.lease(NAME, count=count, interval=interval, now=now, latest=latest):
            assert slot.begins >= now
            used_at = slot.begins + interval * lateness
            assert used_at < slot.ends
            sent.append(used_at)
    for at in sent:
        assert sum(at <= other < at + SECOND for other in sent) <= rate + 1


def test_slot_ends_when_next_one_begins() -> None:
    first, second = slots_from(NOW, timedelta(milliseconds=40), 2)
    assert (first.begins, first.ends) == (NOW, second.begins)


@pytest.mark.parametrize("rate", [-1, 0, math.nan, 1e-9, 1e300, -math.inf])
def test_rate_that_no_slots_can_be_made_for_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=r"a rate is from 0\.001 to 10000 a second, or inf"):
        replace(STRIPE.profile, lookups_per_second=rate)
    with pytest.raises(ValidationError, match="a rate is from"):
        ProviderSettings(effects_per_second=rate)


@pytest.mark.parametrize("rate", [MIN_RATE, MAX_RATE])
def test_slots_can_be_made_for_every_rate(rate: float) -> None:
    interval = timedelta(seconds=1 / rate)
    (slot, *_) = gate_table().lease(NAME, count=10, interval=interval, now=NOW, latest=NOW)
    assert slot.begins + timedelta(milliseconds=4) < slot.ends


def test_slots_out_of_reach_are_not_waited_for() -> None:
    """A clock was wrong, or the rate was much lower: the provider must not stop for hours."""
    interval = timedelta(milliseconds=40)
    for beyond, leased in ((SECOND, slots_from(NOW + SLOT_LEAD, interval, 1)), (0 * SECOND, ())):
        table = gate_table()
        taken = farthest_slot(interval, NOW) + beyond - NOW - SLOT_LEAD
        table.lease(NAME, count=1, interval=taken, now=NOW, latest=NOW)
        assert table.lease(NAME, count=1, interval=interval, now=NOW, latest=NOW) == leased


def results(*failed: bool, apart: timedelta = SECOND) -> list[tuple[datetime, bool]]:
    return [(NOW - apart * age, one) for age, one in enumerate(reversed(failed))]


@pytest.mark.parametrize(
    ("recent", "opens"),
    [
        (results(*[True] * MIN_FAILURES), True),
        (results(*[True] * (MIN_FAILURES - 1)), False),
        (results(*[True, False] * MIN_FAILURES), True),
        (results(*[True, False, False] * MIN_FAILURES), False),
        (results(*[True] * MIN_FAILURES, apart=FAILURE_WINDOW), False),
        (results(), False),
    ],
    ids=["failures", "few", "half", "a third", "long ago", "none"],
)
def test_failures_open_circuit(recent: list[tuple[datetime, bool]], opens: bool) -> None:  # noqa: FBT001  # a parameter
    assert must_open(recent, NOW) is opens


def opened() -> GateState:
    state = open_circuit(GateState(), NOW)
    assert state is not None
    return state


def test_open_circuit_is_probed_by_one_process() -> None:
    state, later = opened(), NOW + FIRST_PROBE_AFTER
    assert open_circuit(state, NOW) is None
    assert state.circuit(later - SECOND) is Circuit.OPEN
    assert take_probe(state, later - SECOND) is None
    assert state.circuit(later) is Circuit.HALF_OPEN

    probing = take_probe(state, later)

    assert probing is not None
    assert take_probe(probing, later) is None
    assert take_probe(probing, later + PROBE_LEASE) is not None, "its process died"


def test_circuit_whose_probe_lies_far_ahead_is_probed() -> None:
    """Written by hand or with a wrong clock: the provider must not stop until then."""
    for probe_at in (NOW + timedelta(days=365), NOW + PROBE_LEASE + MAX_CLOCK_ERROR + SECOND, None):
        state = GateState(opened_at=NOW + timedelta(days=365), probe_at=probe_at)
        assert state.circuit(NOW) is Circuit.HALF_OPEN
        probing = take_probe(state, NOW)
        assert probing is not None
        assert probing.probe_at == NOW + PROBE_LEASE
    skewed = GateState(opened_at=NOW, probe_at=NOW + PROBE_LEASE + MAX_CLOCK_ERROR)
    assert skewed.circuit(NOW) is Circuit.OPEN


def test_closed_circuit_remembers_its_outage() -> None:
    closed = close_circuit(opened(), NOW + SECOND)
    assert closed is not None
    assert close_circuit(closed, NOW) is None
    assert closed.circuit(NOW + SECOND) is Circuit.CLOSED
    assert closed.outages == (Period(NOW, NOW + SECOND),)


def entry(action: PauseAction, minutes: float) -> PauseEntry:
    at = NOW + timedelta(minutes=minutes)
    return PauseEntry(at=at, action=action, actor="ada", reason="wrong prices")


def paused(target: str, *minutes: float) -> Pause:
    """A target that was paused, resumed, paused and so on at these times."""
    pause = Pause(target=target)
    for number, at in enumerate(minutes):
        action = PauseAction.RESUME if number % 2 else PauseAction.PAUSE
        pause = pause.with_entry(entry(action, at))
    return pause


@pytest.mark.parametrize("target", TARGETS)
def test_pause_holds_its_target(target: str) -> None:
    assert GateSnapshot(pauses={target: paused(target, 0)}).pause_of(TARGETS) is not None


@pytest.mark.parametrize("target", ["payment.refund", "queue:mail", "provider:other"])
def test_pause_holds_no_other_jobs(target: str) -> None:
    assert GateSnapshot(pauses={target: paused(target, 0)}).pause_of(TARGETS) is None


def test_resumed_target_holds_nothing() -> None:
    snapshot = GateSnapshot(pauses={"payment.charge": paused("payment.charge", 0, 1)})
    assert snapshot.pause_of(TARGETS) is None


def test_held_time_counts_overlapping_holds_once() -> None:
    gate = GateState(outages=(Period(NOW, NOW + timedelta(minutes=30)),))
    snapshot = GateSnapshot(
        gates={gate_name("acme", LOOKUPS): gate},
        pauses={
            "payment.charge": paused("payment.charge", 10, 40, 50),
            "queue:mail": paused("queue:mail", 0),
        },
    )
    now = NOW + timedelta(minutes=60)

    assert snapshot.held_time(TARGETS, GATES, since=NOW, now=now) == timedelta(minutes=50)
    assert snapshot.held_time(TARGETS, GATES, since=now, now=now) == timedelta(0)


def test_open_circuit_is_held_time() -> None:
    snapshot = GateSnapshot(gates={gate_name("acme", EFFECTS): opened()})
    held = snapshot.held_time(TARGETS, GATES, since=NOW, now=NOW + 5 * SECOND)
    assert held == 5 * SECOND


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=20))
def test_total_time_is_never_longer_than_the_time(pairs: Sequence[tuple[int, int]]) -> None:
    periods = [
        Period(NOW + SECOND * start, NOW + SECOND * (start + length)) for start, length in pairs
    ]
    until = NOW + SECOND * 120
    total = total_time(periods, since=NOW, until=until)
    covered = {
        second for start, length in pairs for second in range(start, min(start + length, 120))
    }
    assert total == SECOND * len(covered)


def test_audit_trail_is_bounded() -> None:
    pause = paused("payment.charge", *range(MAX_PERIODS * 2 + 1))
    assert len(pause.entries) == MAX_PERIODS
    assert pause.current is not None


def test_resume_with_slow_clock_does_not_end_pause_before_it_began() -> None:
    pause = paused("payment.charge", 10, 5, 6)
    assert [one.at for one in pause.entries] == [NOW + timedelta(minutes=10)] * 3
