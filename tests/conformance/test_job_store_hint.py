"""Hints on every engine: an unknown row becomes due, and no wait moves past a hint."""

from dataclasses import replace

from oncely.core.lifecycle import Event
from oncely.core.results import Swapped, VersionConflict
from oncely.core.store import JobStore
from tests.conformance.samples import KEY, apply_event, claim_job, finish_job, time_at


def test_hint_makes_unknown_row_due_and_changes_nothing_else(store: JobStore) -> None:
    claimed = claim_job(store)
    unknown = apply_event(claimed, Event.MARK_UNKNOWN, due_at=time_at(600))
    store.swap(claimed, unknown)

    assert store.hint(KEY, deployment=unknown.deployment, now=time_at(30))

    hinted = replace(unknown, hinted_at=time_at(30), due_at=time_at(30))
    assert store.get(KEY) == hinted
    assert not store.hint(KEY, deployment=unknown.deployment, now=time_at(20))
    assert not store.hint(KEY, deployment="another", now=time_at(40))
    assert store.get(KEY) == hinted


def test_repeated_hint_of_same_moment_counts_as_saved(store: JobStore) -> None:
    """A webhook that is delivered again after a lost response must not be rejected."""
    claimed = claim_job(store)
    unknown = apply_event(claimed, Event.MARK_UNKNOWN, due_at=time_at(600))
    store.swap(claimed, unknown)

    assert store.hint(KEY, deployment=unknown.deployment, now=time_at(30))
    hinted = store.get(KEY)
    assert store.hint(KEY, deployment=unknown.deployment, now=time_at(30))

    assert store.get(KEY) == hinted


def test_hint_of_missing_or_claimed_or_ended_row_changes_nothing(store: JobStore) -> None:
    assert not store.hint(KEY, deployment=None, now=time_at(30))
    assert store.get(KEY) is None
    claimed = claim_job(store)
    assert not store.hint(KEY, deployment=claimed.deployment, now=time_at(30))
    finished = finish_job(claimed)
    store.swap(claimed, finished)
    assert not store.hint(KEY, deployment=claimed.deployment, now=time_at(30))
    assert store.get(KEY) == finished


def test_wait_conflicts_with_hint_it_has_not_seen_and_end_does_not(store: JobStore) -> None:
    claimed = claim_job(store)
    unknown = apply_event(claimed, Event.MARK_UNKNOWN, due_at=time_at(60))
    store.swap(claimed, unknown)
    store.hint(KEY, deployment=unknown.deployment, now=time_at(30))
    hinted = replace(unknown, hinted_at=time_at(30), due_at=time_at(30))

    wait = apply_event(unknown, Event.RECHECK, due_at=time_at(900))
    assert store.swap(unknown, wait) == VersionConflict(hinted)
    again = apply_event(hinted, Event.RECHECK, due_at=time_at(40))
    assert store.swap(hinted, again) == Swapped(again)

    store.hint(KEY, deployment=unknown.deployment, now=time_at(50))
    ended = apply_event(again, Event.CONFIRM, result={"charge_id": "ch_1"}, due_at=None)
    assert isinstance(store.swap(again, ended), Swapped)
