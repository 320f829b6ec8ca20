"""Due rows: what the reconciler does with one, and how sweeps and dead letters move its time."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.decide import ALERT_TIMEOUT, MESSAGE_GRACE, park, requeue
from oncely.core.due import (
    SweepStep,
    alert_reservation_valid,
    flag_changed_values,
    hold_for_sweep,
    on_dead_letter,
    resend,
    sweep_step,
)
from oncely.core.effect_outcomes import Anomalous, Declined, NotFound, Succeeded
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, Status, WaitKind
from tests.unit.samples import (
    NO_LIMIT,
    NOW,
    TERMS,
    TICK,
    claim_row,
    make_claim,
    make_entry,
    make_job,
)

SIX_HOURS = timedelta(hours=6)
CHARGED = Succeeded("charged", "pi_1", {"charge_id": "ch_1"})


def stranded_job(*, since: timedelta, event: Event) -> JobRow:
    evidence = (make_entry(event=event),)
    return make_job(
        status=Status.READY,
        waits_for=WaitKind.DEAD_LETTER,
        since=NOW - since,
        claimed_at=None,
        evidence=evidence,
    )


def test_hold_for_sweep_moves_only_due_time() -> None:
    held = make_job(version=5, due_at=NOW + timedelta(minutes=2))
    assert hold_for_sweep(make_job(version=4), NOW, jitter=0) == held


@pytest.mark.parametrize(
    ("due_in", "ok"), [(ALERT_TIMEOUT, True), (ALERT_TIMEOUT - TICK, False), (None, False)]
)
def test_alert_reservation_expires_before_row_is_due(due_in: timedelta | None, *, ok: bool) -> None:
    job = make_job(status=Status.NEEDS_REVIEW, due_at=None if due_in is None else NOW + due_in)
    assert alert_reservation_valid(job, NOW) is ok


@pytest.mark.parametrize(
    ("since", "event", "expected"),
    [
        (SIX_HOURS, Event.PARK, Event.ESCALATE),
        (SIX_HOURS - TICK, Event.PARK, None),
        (SIX_HOURS - TICK, Event.ENQUEUE, None),
        (SIX_HOURS - TICK, Event.RESEND, Event.PARK),
    ],
)
def test_dead_letter_needs_review_only_after_long_outage(
    since: timedelta, event: Event, expected: Event | None
) -> None:
    decision = on_dead_letter(stranded_job(since=since, event=event), NO_LIMIT, NOW)
    assert (decision.event if decision else None) is expected


def strand(row: JobRow) -> JobRow:
    decision = on_dead_letter(row, NO_LIMIT, NOW)
    assert decision is not None
    assert decision.event is Event.PARK
    return decision.apply_to(row, now=NOW, actor="dead letters")


def test_dead_letter_after_new_claim_starts_new_outage() -> None:
    claimed = claim_row(stranded_job(since=SIX_HOURS, event=Event.RESEND), make_claim())
    released = requeue(Event.RELEASE, "down", run_at=NOW).apply_to(claimed, now=NOW, actor="worker")

    after = strand(released)

    assert after.due_at == NOW + timedelta(minutes=30)
    assert (after.is_stranded, after.since, after.last_error) == (True, NOW, "down")


def test_dead_letter_after_other_wait_starts_new_outage() -> None:
    row = stranded_job(since=SIX_HOURS, event=Event.RESEND)
    held = park(row, NOW, "paused", WaitKind.GATE)
    assert held is not None
    assert strand(held.apply_to(row, now=NOW, actor="worker")).since == NOW


def test_dead_letter_of_stranded_row_keeps_start_of_outage() -> None:
    row = stranded_job(since=timedelta(hours=1), event=Event.RESEND)
    resent = resend(row, TERMS, NOW).apply_to(row, now=NOW, actor="reconciler")
    assert strand(resent).since == NOW - timedelta(hours=1)


def test_row_that_waits_so_already_is_not_parked_again() -> None:
    row = make_job(status=Status.READY, waits_for=WaitKind.GATE, due_at=NOW)
    assert park(row, NOW, "paused", WaitKind.GATE) is None
    for until, kind in ((NOW + MESSAGE_GRACE, WaitKind.GATE), (NOW, WaitKind.DEAD_LETTER)):
        decision = park(row, until, "paused", kind)
        assert decision is not None
        assert decision.apply_to(row, now=NOW, actor="worker").due_at == until


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.READY}))
def test_dead_letter_changes_nothing_unless_row_is_ready(status: Status) -> None:
    assert on_dead_letter(make_job(status=status), NO_LIMIT, NOW) is None


def test_definite_outcome_for_changed_values_is_anomalous() -> None:
    job = make_job(fingerprint="of the order")
    declined = Declined("declined", "card_declined", {"request_id": "req_1"})

    for outcome, ref in ((CHARGED, "pi_1"), (declined, None)):
        odd = flag_changed_values(job, outcome, "of another order")

        assert isinstance(odd, Anomalous)
        assert (odd.ref, odd.result) == (ref, outcome.result)
        assert odd.reason.startswith(f"{outcome.reason}; but the business values changed")


@pytest.mark.parametrize(
    ("outcome", "fingerprint_now"),
    [(CHARGED, "of the order"), (CHARGED, None), (NotFound("none"), "of another order")],
)
def test_outcome_stands_with_same_values_or_nothing_definite(
    outcome: Succeeded | NotFound, fingerprint_now: str | None
) -> None:
    assert flag_changed_values(make_job(), outcome, fingerprint_now) is outcome


def test_holds_in_same_millisecond_write_different_rows() -> None:
    row = make_job(status=Status.NEEDS_REVIEW)
    assert hold_for_sweep(row, NOW, jitter=0.25) != hold_for_sweep(row, NOW, jitter=0.5)


@pytest.mark.parametrize(
    ("row", "step"),
    [
        (make_job(lease_until=NOW + TICK), SweepStep.NONE),
        (make_job(lease_until=NOW + TICK, due_at=NOW), SweepStep.NONE),
        (make_job(lease_until=NOW), SweepStep.EXPIRE_LEASE),
        (make_job(lease_until=None), SweepStep.EXPIRE_LEASE),
        (make_job(status=Status.UNKNOWN, due_at=NOW + TICK), SweepStep.NONE),
        (make_job(status=Status.UNKNOWN, due_at=NOW), SweepStep.LOOK_UP),
        (make_job(status=Status.READY, due_at=NOW + TICK), SweepStep.NONE),
        (make_job(status=Status.READY, due_at=NOW), SweepStep.RESEND),
        (make_job(status=Status.READY, due_at=None), SweepStep.NONE),
        (make_job(status=Status.FINISHED, due_at=NOW + TICK), SweepStep.NONE),
        (make_job(status=Status.FINISHED, due_at=NOW), SweepStep.PUBLISH),
        (make_job(status=Status.FINISHED, due_at=None), SweepStep.NONE),
        (make_job(status=Status.FAILED, due_at=NOW), SweepStep.PUBLISH),
        (make_job(status=Status.NEEDS_REVIEW, due_at=NOW), SweepStep.ALERT),
        (make_job(status=Status.NEEDS_REVIEW, due_at=None), SweepStep.NONE),
    ],
)
def test_due_row_needs_one_action(row: JobRow, step: SweepStep) -> None:
    assert sweep_step(row, NOW) is step


@pytest.mark.parametrize("status", Status)
def test_on_demand_sweep_looks_up_unknown_job_before_due_time(status: Status) -> None:
    row = make_job(status=status, due_at=NOW + TICK, lease_until=NOW + TICK)
    step = sweep_step(row, NOW, on_demand=True)
    assert step is (SweepStep.LOOK_UP if status is Status.UNKNOWN else SweepStep.NONE)


def test_ready_row_is_resent_until_age_limit() -> None:
    old = NOW - TERMS.limits.max_age
    row = make_job(status=Status.READY, created_at=old, last_error="connection refused")

    young = resend(replace(row, created_at=old + TICK), TERMS, NOW)
    assert (young.event, young.changes) == (Event.RESEND, {"due_at": NOW + MESSAGE_GRACE})
    too_old = resend(row, TERMS, NOW)
    assert (too_old.event, too_old.alert) == (Event.ESCALATE, True)
    assert "connection refused" in too_old.reason


def test_repeated_resends_leave_one_evidence_entry() -> None:
    row = make_job(status=Status.READY, claimed_at=None)

    for minutes in (15, 30, 45):
        now = NOW + timedelta(minutes=minutes)
        row = resend(row, TERMS, now).apply_to(row, now=now, actor="reconciler")

    (entry,) = row.evidence
    assert (entry.count, entry.last_at) == (3, NOW + timedelta(minutes=45))
