"""A job's history as people read it: every event has words, and claims stand in their place."""

from datetime import timedelta

import pytest

from oncely.domain.lifecycle import Event, Status
from oncely.domain.story import story, words_of
from tests.unit.samples import NOW, a_job, an_entry


@pytest.mark.parametrize("event", Event)
def test_every_event_has_its_words(event: Event) -> None:
    assert words_of(event)


def test_claim_is_shown_in_order_without_own_entry() -> None:
    asked_for = an_entry(at=NOW, event=Event.ENQUEUE, old=None, new=Status.READY)
    ended = an_entry(at=NOW + timedelta(minutes=2), event=Event.CONFIRM, new=Status.FINISHED)
    job = a_job(evidence=(asked_for, ended), claimed_at=NOW + timedelta(minutes=1))

    told = story(job)

    assert [line.event for line in told] == [Event.ENQUEUE, Event.CLAIM, Event.CONFIRM]
    assert (told[1].old, told[1].new) == (Status.READY, Status.STARTED)


def test_unenqueued_job_shows_first_and_latest_claim() -> None:
    again = a_job(fence=3, claimed_at=NOW + timedelta(minutes=5))

    told = story(again)

    assert [(line.old, line.reason) for line in told] == [(None, "run 1"), (Status.READY, "run 3")]


def test_unenqueued_job_shows_its_only_claim_once() -> None:
    (line,) = story(a_job(created_at=NOW, claimed_at=NOW))

    assert (line.old, line.new, line.reason) == (None, Status.STARTED, "run 1")


def test_unclaimed_job_has_no_claim_in_timeline() -> None:
    enqueued = an_entry(event=Event.ENQUEUE, old=None, new=Status.READY)

    assert story(a_job(claimed_at=None, evidence=(enqueued,))) == (enqueued,)
