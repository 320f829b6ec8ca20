"""What a row that was found due asks of the reconciler."""

from datetime import timedelta

import pytest

from oncely.domain.due import Step, due_step, send_again
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import MESSAGE_GRACE
from tests.unit.samples import NOW, TERMS, TICK, a_job


@pytest.mark.parametrize(
    ("row", "step"),
    [
        (a_job(lease_until=NOW + TICK), Step.NOTHING),
        (a_job(lease_until=NOW + TICK, due_at=NOW), Step.NOTHING),
        (a_job(lease_until=NOW), Step.BURY),
        (a_job(lease_until=None), Step.BURY),
        (a_job(status=Status.UNKNOWN, due_at=NOW + TICK), Step.NOTHING),
        (a_job(status=Status.UNKNOWN, due_at=NOW), Step.ASK),
        (a_job(status=Status.READY, due_at=NOW + TICK), Step.NOTHING),
        (a_job(status=Status.READY, due_at=NOW), Step.SEND),
        (a_job(status=Status.READY, due_at=None), Step.NOTHING),
        (a_job(status=Status.FINISHED, due_at=NOW + TICK), Step.NOTHING),
        (a_job(status=Status.FINISHED, due_at=NOW), Step.PUBLISH),
        (a_job(status=Status.FINISHED, due_at=None), Step.NOTHING),
        (a_job(status=Status.FAILED, due_at=NOW), Step.PUBLISH),
        (a_job(status=Status.NEEDS_REVIEW, due_at=NOW), Step.TELL),
        (a_job(status=Status.NEEDS_REVIEW, due_at=None), Step.NOTHING),
    ],
)
def test_due_row_needs_one_action(row: Job, step: Step) -> None:
    assert due_step(row, NOW) is step


@pytest.mark.parametrize("status", Status)
def test_on_demand_sweep_looks_up_unknown_job_before_due_time(status: Status) -> None:
    row = a_job(status=status, due_at=NOW + TICK, lease_until=NOW + TICK)

    step = due_step(row, NOW, asked_for=True)

    assert step is (Step.ASK if status is Status.UNKNOWN else Step.NOTHING)


def test_ready_row_is_resent_and_due_after_grace() -> None:
    row = a_job(status=Status.READY, created_at=NOW - TERMS.stop.age + TICK)

    decision = send_again(row, TERMS, NOW)

    assert decision.event is Event.RESEND
    assert decision.changes == {"due_at": NOW + MESSAGE_GRACE}


def test_ready_row_escalates_at_age_limit() -> None:
    row = a_job(
        status=Status.READY, created_at=NOW - TERMS.stop.age, last_error="connection refused"
    )

    decision = send_again(row, TERMS, NOW)

    assert (decision.event, decision.alert) == (Event.ESCALATE, True)
    assert "connection refused" in decision.reason


def test_repeated_resends_leave_one_evidence_entry() -> None:
    row = a_job(status=Status.READY)

    for minutes in (15, 30, 45):
        now = NOW + timedelta(minutes=minutes)
        row = send_again(row, TERMS, now).on(row, now=now, actor="reconciler")

    (entry,) = row.evidence
    assert (entry.count, entry.last_at) == (3, NOW + timedelta(minutes=45))
