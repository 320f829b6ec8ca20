"""The record of a job: how an event and a claim change it."""

from datetime import timedelta

import pytest

from oncely.core.errors import IllegalTransitionError
from oncely.core.job_row import new_job
from oncely.core.lifecycle import Event, Status
from tests.unit.samples import KEY, NOW, TICK, make_job

LATER = NOW + timedelta(minutes=5)


def test_enqueued_job_is_ready_and_due() -> None:
    job = new_job(
        KEY, "payment.charge", {"v": 1}, now=NOW, due_at=LATER, actor="producer", reason="enqueued"
    )

    assert (job.status, job.due_at, job.version) == (Status.READY, LATER, 1)
    assert (job.fence, job.attempts, job.was_claimed) == (0, 0, False)
    assert [(entry.event, entry.actor) for entry in job.evidence] == [(Event.ENQUEUE, "producer")]


def test_lease_expires_exactly_at_its_end_time() -> None:
    job = make_job(lease_until=LATER)
    assert not job.lease_expired(LATER - TICK)
    assert job.lease_expired(LATER)


def test_event_adds_version_and_evidence_entry() -> None:
    job = make_job(version=4)

    result = {"charge_id": "ch_1"}

    after = job.apply(Event.CONFIRM, now=LATER, actor="worker", reason="charged", result=result)

    assert (after.status, after.version, after.updated_at) == (Status.FINISHED, 5, LATER)
    assert (after.ended, after.result) == (True, result)
    (entry,) = after.evidence
    assert (entry.from_status, entry.to_status) == (Status.STARTED, Status.FINISHED)
    assert (entry.at, entry.actor, entry.reason) == (LATER, "worker", "charged")


def test_illegal_event_raises_error() -> None:
    with pytest.raises(IllegalTransitionError, match="finished cannot take the event claim"):
        make_job(status=Status.FINISHED).apply(Event.CLAIM, now=NOW, actor="worker", reason="again")
