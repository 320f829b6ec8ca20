"""The ended row is the proof: its expiry, and what must be published before it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.decide import on_late_outcome
from oncely.core.effect_outcomes import Declined, Succeeded
from oncely.core.ended_jobs import (
    MONEY_RETENTION,
    PROOF_RETENTION,
    PUBLISH_GRACE,
    ROLLBACK_GRACE,
    awaits_publishing,
    finalize_if_ended,
    mark_published,
    publishable_without_follow_ups,
)
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, Status
from oncely.core.profiles import RetrySafety
from tests.unit.decision_grid import decide_any
from tests.unit.errand_job import errand_type
from tests.unit.samples import NOW, TERMS, TICK, make_entry, make_job

STARTED = make_job()
FINISHED = decide_any(STARTED, TERMS, Succeeded("charged", "pi_1"), now=NOW).apply_to(
    STARTED, now=NOW, actor="worker"
)
DAYS_400 = timedelta(days=400)
MANUALLY_RESOLVED = make_entry(
    event=Event.RESOLVE_FAILED, from_status=Status.NEEDS_REVIEW, to_status=Status.FAILED
)
REFUSED = make_entry(event=Event.DECLINE, from_status=Status.STARTED, to_status=Status.FAILED)
NOTED = make_entry(event=Event.NOTE, from_status=Status.FAILED, to_status=Status.FAILED)


def end_job(before: JobRow = STARTED, after: JobRow = FINISHED, *, owes: bool = False) -> JobRow:
    return finalize_if_ended(before, after, retention=DAYS_400, must_publish=owes, now=NOW)


def test_ended_row_expires_when_nothing_is_left_to_publish() -> None:
    row = end_job()
    assert (row.due_at, row.expires_at) == (None, NOW + DAYS_400)
    assert not awaits_publishing(row)


def test_unpublished_ended_row_stays_due_without_expiry() -> None:
    row = end_job(owes=True)
    assert (row.due_at, row.expires_at) == (STARTED.due_at, None)
    assert awaits_publishing(row)


def test_unpublished_ended_row_becomes_due_when_it_was_not() -> None:
    review = make_job(status=Status.NEEDS_REVIEW, due_at=None)
    resolved = replace(review, status=Status.FINISHED)
    assert end_job(review, resolved, owes=True).due_at == NOW + PUBLISH_GRACE


@pytest.mark.parametrize("owes", [False, True])
def test_write_is_unchanged_when_it_ends_no_job(*, owes: bool) -> None:
    noted = replace(FINISHED, version=9, due_at=None, expires_at=NOW)
    lost = replace(STARTED, status=Status.UNKNOWN)
    assert end_job(FINISHED, noted, owes=owes) == noted
    assert end_job(STARTED, lost, owes=owes) == lost


def test_expiry_has_whole_seconds() -> None:
    late = NOW + timedelta(microseconds=999)
    row = finalize_if_ended(STARTED, FINISHED, retention=DAYS_400, must_publish=False, now=late)
    assert row.expires_at == NOW + DAYS_400


def test_published_row_expires_and_is_not_due() -> None:
    owing = end_job(owes=True)
    row = mark_published(owing, retention=DAYS_400, now=NOW)
    assert (row.status, row.due_at, row.expires_at) == (Status.FINISHED, None, NOW + DAYS_400)
    assert (row.version, row.evidence) == (owing.version + 1, owing.evidence)


def test_contradiction_clears_expiry_until_next_resolution() -> None:
    row = end_job()

    contradicted = on_late_outcome(row, Declined("never captured", code="gone"), fence=1).apply_to(
        row, now=NOW, actor="worker"
    )
    assert (contradicted.status, contradicted.expires_at) == (Status.NEEDS_REVIEW, None)

    resolved = replace(contradicted, status=Status.FAILED)
    assert end_job(contradicted, resolved).expires_at == NOW + DAYS_400


@pytest.mark.parametrize(
    ("safety", "takes_money", "row_retention", "expected"),
    [
        (RetrySafety.NATURAL, False, timedelta(days=90), timedelta(days=90)),
        (RetrySafety.NATURAL, False, None, PROOF_RETENTION),
        (RetrySafety.KEYED, True, timedelta(days=90), MONEY_RETENTION),
        (RetrySafety.KEYED, False, timedelta(days=90), PROOF_RETENTION),
        (RetrySafety.AT_MOST_ONCE, False, timedelta(days=90), PROOF_RETENTION),
    ],
)
def test_default_retention_follows_safety_and_money(
    safety: RetrySafety, *, takes_money: bool, row_retention: timedelta | None, expected: timedelta
) -> None:
    sample = errand_type(safety)
    sample.takes_money = takes_money
    assert sample.effective_retention(row_retention) == expected


@pytest.mark.parametrize(
    ("job", "may"),
    [
        (make_job(evidence=(MANUALLY_RESOLVED,)), True),
        (make_job(evidence=(MANUALLY_RESOLVED, NOTED)), True),
        (make_job(evidence=(MANUALLY_RESOLVED, REFUSED)), False),
        (make_job(evidence=(REFUSED,)), False),
        (make_job(evidence=()), False),
        (make_job(updated_at=NOW - ROLLBACK_GRACE), True),
        (make_job(updated_at=NOW - ROLLBACK_GRACE + TICK), False),
    ],
)
def test_unreadable_row_may_publish_after_repair_or_wait(job: JobRow, *, may: bool) -> None:
    assert publishable_without_follow_ups(job, NOW) is may
