"""What the reconciler does with a due row."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.decisions import MESSAGE_GRACE
from oncely.domain.due import SweepStep, resend, sweep_step
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from tests.unit.samples import NOW, TERMS, TICK, make_job


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
def test_due_row_needs_one_action(row: Job, step: SweepStep) -> None:
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
    row = make_job(status=Status.READY)

    for minutes in (15, 30, 45):
        now = NOW + timedelta(minutes=minutes)
        row = resend(row, TERMS, now).apply_to(row, now=now, actor="reconciler")

    (entry,) = row.evidence
    assert (entry.count, entry.last_at) == (3, NOW + timedelta(minutes=45))
