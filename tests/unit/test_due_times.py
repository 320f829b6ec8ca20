"""How looks and dead letters move the due time of a row."""

from datetime import datetime, timedelta

import pytest

from oncely.domain.answers import Absent, Done, Odd, Refused
from oncely.domain.due import (
    dead_letter,
    looked_at,
    may_tell,
    of_other_values,
    stranded,
)
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import TELLING_TAKES
from tests.unit.samples import NOW, TICK, a_job, an_entry

SIX_HOURS = timedelta(hours=6)
CHARGED = Done("charged", "pi_1", {"charge_id": "ch_1"})


def given_up(*, since: timedelta, event: Event, fence: int = 1) -> Job:
    """A ready row whose message was given up at its first claim, so long ago."""
    return a_job(
        status=Status.READY,
        fence=fence,
        stranded_fence=1,
        stranded_since=NOW - since,
        evidence=(an_entry(event=event),),
    )


def test_hold_for_sweep_moves_only_due_time() -> None:
    row = a_job(version=4)

    assert looked_at(row, NOW, jitter=0) == a_job(version=5, due_at=NOW + timedelta(minutes=2))


@pytest.mark.parametrize(
    ("due_at", "may"),
    [(None, False), (NOW + TELLING_TAKES, True), (NOW + TELLING_TAKES - TICK, False)],
)
def test_alert_reservation_expires_before_row_is_due(due_at: datetime | None, *, may: bool) -> None:
    assert may_tell(a_job(status=Status.NEEDS_REVIEW, due_at=due_at), NOW) is may


@pytest.mark.parametrize(
    ("since", "event", "expected"),
    [
        (SIX_HOURS, Event.DEFER, Event.ESCALATE),
        (SIX_HOURS - TICK, Event.DEFER, None),
        (SIX_HOURS - TICK, Event.ENQUEUE, None),
        (SIX_HOURS - TICK, Event.RESEND, Event.DEFER),
    ],
)
def test_dead_letter_needs_review_only_after_long_outage(
    since: timedelta, event: Event, expected: Event | None
) -> None:
    decision = dead_letter(given_up(since=since, event=event), NOW)

    assert (decision.event if decision else None) is expected


def test_dead_letter_after_new_claim_starts_new_outage() -> None:
    row = given_up(since=SIX_HOURS, event=Event.RELEASE, fence=2)

    decision = dead_letter(row, NOW)

    assert decision is not None
    assert decision.event is Event.DEFER
    after = decision.on(row, now=NOW, actor="dead letters")
    assert after.due_at == NOW + timedelta(minutes=30)
    assert (after.stranded_fence, after.stranded_since) == (2, NOW)


def test_dead_letter_of_stranded_row_keeps_start_of_outage() -> None:
    since = NOW - timedelta(hours=1)
    row = a_job(status=Status.READY, stranded_fence=1, stranded_since=since)

    assert stranded(row, NOW).stranded_since == since


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.READY}))
def test_dead_letter_changes_nothing_unless_row_is_ready(status: Status) -> None:
    assert dead_letter(a_job(status=status), NOW) is None


def test_definite_outcome_for_changed_values_is_anomalous() -> None:
    job = a_job(fingerprint="of the order")
    refused = Refused("declined", "card_declined", {"request_id": "req_1"})

    for answer, ref in ((CHARGED, "pi_1"), (refused, None)):
        odd = of_other_values(job, answer, "of another order")

        assert isinstance(odd, Odd)
        assert (odd.ref, odd.result) == (ref, answer.result)
        assert odd.reason.startswith(f"{answer.reason}; but the business values changed")


@pytest.mark.parametrize(
    ("answer", "fingerprint_now"),
    [(CHARGED, "of the order"), (CHARGED, None), (Absent("none"), "of another order")],
)
def test_outcome_stands_with_same_values_or_nothing_definite(
    answer: Done | Absent, fingerprint_now: str | None
) -> None:
    assert of_other_values(a_job(), answer, fingerprint_now) is answer


def test_holds_in_same_millisecond_write_different_rows() -> None:
    row = a_job(status=Status.NEEDS_REVIEW)

    assert looked_at(row, NOW, jitter=0.25) != looked_at(row, NOW, jitter=0.5)
