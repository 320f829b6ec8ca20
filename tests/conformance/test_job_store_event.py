"""Provider events on every engine: saved whatever the status, and seen before a review."""

from dataclasses import replace

import pytest

from oncely.core.event_records import EventMark, EventRecord
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event
from oncely.core.results import Swapped, VersionConflict
from oncely.core.store import JobStore
from tests.conformance.samples import KEY, apply_event, claim_job, finish_job, time_at

SENT = EventRecord(
    at=time_at(30), provider="acme", name="Send", mark=EventMark.PROOF, fence=1, ref="mail_1"
)
BOUNCED = replace(SENT, name="Bounce", mark=EventMark.REPORT, code="Permanent")


@pytest.mark.parametrize("ended", [False, True])
def test_event_is_saved_without_version_whatever_the_status(
    store: JobStore, *, ended: bool
) -> None:
    row = claim_job(store)
    if ended:
        finished = finish_job(row)
        store.swap(row, finished)
        row = finished

    assert store.save_event(row, SENT)
    assert store.get(KEY) == replace(row, provider_events=(SENT,))
    assert not store.save_event(row, BOUNCED)  # it has not seen the first one
    assert store.save_event(replace(row, provider_events=(SENT,)), BOUNCED)
    assert store.get(KEY) == replace(row, provider_events=(SENT, BOUNCED))


def test_event_of_missing_or_other_row_is_not_saved(store: JobStore) -> None:
    row = claim_job(store)
    for other in (
        replace(row, job_key=JobKey(f"{KEY}:2")),
        replace(row, deployment="another"),
        replace(row, created_at=time_at(-60)),
    ):
        assert not store.save_event(other, SENT)
        assert store.get(other.job_key) in (None, row)


def test_review_conflicts_with_event_it_has_not_seen_and_end_does_not(store: JobStore) -> None:
    claimed = claim_job(store)
    unknown = apply_event(claimed, Event.MARK_UNKNOWN, due_at=time_at(60))
    store.swap(claimed, unknown)
    store.save_event(unknown, SENT)
    proved = replace(unknown, provider_events=(SENT,))

    review = apply_event(unknown, Event.ESCALATE, due_at=time_at(60))
    assert store.swap(unknown, review) == VersionConflict(proved)
    ended = apply_event(unknown, Event.CONFIRM, result={"message_id": "mail_1"}, due_at=None)
    assert isinstance(store.swap(unknown, ended), Swapped)
    assert store.get(KEY) == replace(ended, provider_events=(SENT,))


def test_review_that_has_seen_the_event_is_written(store: JobStore) -> None:
    claimed = claim_job(store)
    store.save_event(claimed, SENT)
    proved = replace(claimed, provider_events=(SENT,))
    review = apply_event(proved, Event.ESCALATE, due_at=time_at(60))
    assert store.swap(proved, review) == Swapped(review)
    assert store.get(KEY) == review
