"""A definite outcome of a worker that lost its ownership: a note, or a contradiction."""

from datetime import timedelta

import pytest

from oncely.core.decide import on_late_outcome, on_lookup_of_ended
from oncely.core.effect_outcomes import (
    Anomalous,
    Declined,
    LookupFailed,
    LookupOutcome,
    NotFound,
    StillOpen,
    Succeeded,
)
from oncely.core.lifecycle import ENDED, Event, Status
from tests.unit.samples import NOW, make_job

SAME = Succeeded("charged as ch_1", "pi_1")
OTHER = Succeeded("charged as ch_2", "pi_2")
NO = Declined("declined", "card_declined")
STILL_OPEN = set(Status) - ENDED


@pytest.mark.parametrize(
    ("status", "answer", "event"),
    [
        (Status.FINISHED, SAME, Event.NOTE),
        (Status.FINISHED, OTHER, Event.CONTRADICT),
        (Status.FINISHED, NO, Event.CONTRADICT),
        (Status.FAILED, SAME, Event.CONTRADICT),
        (Status.FAILED, OTHER, Event.CONTRADICT),
        (Status.FAILED, NO, Event.NOTE),
        (Status.CANCELLED, SAME, Event.CONTRADICT),
        (Status.CANCELLED, OTHER, Event.CONTRADICT),
        (Status.CANCELLED, NO, Event.NOTE),
        *(
            (status, answer, Event.NOTE)
            for status in sorted(STILL_OPEN)
            for answer in (SAME, OTHER, NO)
        ),
    ],
)
def test_late_outcome_changes_status_only_by_contradiction(
    status: Status, answer: Succeeded | Declined, event: Event
) -> None:
    decision = on_late_outcome(make_job(status=status, provider_ref="pi_1"), answer, fence=3)

    assert decision.event is event
    assert decision.alert is (event is Event.CONTRADICT)
    assert answer.reason in decision.reason
    assert "claim 3" in decision.reason


@pytest.mark.parametrize("status", sorted(ENDED))
@pytest.mark.parametrize(
    "outcome",
    [
        NotFound("nothing is there", conclusive=True),
        Anomalous("ch_1 was charged and refunded", "pi_1", {"charge_id": "ch_1"}),
        Anomalous("ch_1 was charged and is disputed", "pi_1", effect_done=True),
        Anomalous("pi_1 is not this job's payment: its livemode is False, not True", "pi_1"),
        LookupFailed("reading pi_1 failed", unknown_reference=True),
    ],
    ids=["absent", "refunded", "disputed", "other mode", "no answer"],
)
def test_lookup_without_a_definite_outcome_never_contradicts_an_end(
    outcome: LookupOutcome, status: Status
) -> None:
    row = make_job(status=status, provider_ref="pi_1")

    decision = on_lookup_of_ended(row, outcome, cause="looked up: a customer asks")

    assert (decision.event, decision.alert) == (Event.NOTE, False)
    assert decision.apply_to(row, now=NOW, actor="operator:ada").status is status


@pytest.mark.parametrize("status", sorted(ENDED))
def test_decline_that_is_still_open_contradicts_only_a_finished_job(status: Status) -> None:
    row = make_job(status=status, provider_ref="pi_1")
    declined = StillOpen("declined", "card_declined")

    decision = on_lookup_of_ended(row, declined, cause="looked up: a customer asks")

    assert decision.event is (Event.CONTRADICT if status.is_finished else Event.NOTE)


def test_contradicted_job_never_expires_and_is_due_for_alert() -> None:
    row = make_job(
        status=Status.FAILED,
        due_at=NOW + timedelta(minutes=5),
        expires_at=NOW + timedelta(days=90),
        result={"code": "card_declined"},
    )

    after = on_late_outcome(row, SAME, fence=1).apply_to(row, now=NOW, actor="worker")

    assert after.status is Status.NEEDS_REVIEW
    assert (after.due_at, after.expires_at) == (NOW, None)
    assert after.result == row.result


def test_note_changes_only_evidence() -> None:
    row = make_job(status=Status.FINISHED, provider_ref="pi_1", due_at=NOW)
    assert on_late_outcome(row, SAME, fence=1).changes == {}
