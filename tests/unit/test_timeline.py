"""The timeline: every event has a label, and claims appear in order."""

from datetime import timedelta

import pytest

from oncely.domain.lifecycle import Event, Status
from oncely.domain.timeline import describe_event, timeline
from tests.unit.samples import NOW, make_entry, make_job


@pytest.mark.parametrize("event", Event)
def test_every_event_has_label(event: Event) -> None:
    assert describe_event(event)


def test_claim_is_shown_in_order_without_own_entry() -> None:
    asked_for = make_entry(at=NOW, event=Event.ENQUEUE, from_status=None, to_status=Status.READY)
    end = make_entry(at=NOW + timedelta(minutes=2), event=Event.CONFIRM, to_status=Status.FINISHED)

    entries = timeline(make_job(evidence=(asked_for, end), claimed_at=NOW + timedelta(minutes=1)))

    assert [line.event for line in entries] == [Event.ENQUEUE, Event.CLAIM, Event.CONFIRM]
    assert (entries[1].from_status, entries[1].to_status) == (Status.READY, Status.STARTED)


def test_unenqueued_job_shows_first_and_latest_claim() -> None:
    entries = timeline(make_job(fence=3, claimed_at=NOW + timedelta(minutes=5)))

    assert [(line.from_status, line.reason) for line in entries] == [
        (None, "run 1"),
        (Status.READY, "run 3"),
    ]


def test_unenqueued_job_shows_its_only_claim_once() -> None:
    (line,) = timeline(make_job(created_at=NOW, claimed_at=NOW))
    assert (line.from_status, line.to_status, line.reason) == (None, Status.STARTED, "run 1")


def test_unclaimed_job_has_no_claim_in_timeline() -> None:
    enqueued = make_entry(event=Event.ENQUEUE, from_status=None, to_status=Status.READY)
    assert timeline(make_job(claimed_at=None, evidence=(enqueued,))) == (enqueued,)
