"""The ended row is the proof: its expiry, and what it owes before that."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.answers import Done, Refused
from oncely.domain.decide import decide, late_answer
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import Safety
from oncely.domain.proof import (
    MONEY_RETENTION,
    PROOF_RETENTION,
    PUBLISH_GRACE,
    UNREAD_WAIT,
    default_retention,
    ended,
    may_be_published_unread,
    owes_something,
    published,
)
from tests.unit.samples import NOW, TERMS, TICK, a_job, an_entry

STARTED = a_job()
FINISHED = decide(STARTED, TERMS, Done("charged", "pi_1"), now=NOW).on(
    STARTED, now=NOW, actor="worker"
)
DAYS_400 = timedelta(days=400)
RULED = an_entry(event=Event.RULE_FAILED, old=Status.NEEDS_REVIEW, new=Status.FAILED)
REFUSED = an_entry(event=Event.REFUSE, old=Status.STARTED, new=Status.FAILED)
NOTED = an_entry(event=Event.NOTE, old=Status.FAILED, new=Status.FAILED)


def after_end(before: Job = STARTED, after: Job = FINISHED, *, owes: bool = False) -> Job:
    return ended(before, after, retention=DAYS_400, owes=owes, now=NOW)


def test_ended_row_expires_when_nothing_is_left_to_publish() -> None:
    row = after_end()

    assert (row.due_at, row.expires_at) == (None, NOW + DAYS_400)
    assert not owes_something(row)


def test_unpublished_ended_row_stays_due_without_expiry() -> None:
    row = after_end(owes=True)

    assert (row.due_at, row.expires_at) == (STARTED.due_at, None)
    assert owes_something(row)


def test_unpublished_ended_row_becomes_due_when_it_was_not() -> None:
    review = a_job(status=Status.NEEDS_REVIEW, due_at=None)
    ruled = replace(review, status=Status.FINISHED)

    assert after_end(review, ruled, owes=True).due_at == NOW + PUBLISH_GRACE


@pytest.mark.parametrize("owes", [False, True])
def test_write_is_unchanged_when_it_ends_no_job(*, owes: bool) -> None:
    noted = replace(FINISHED, version=9, due_at=None, expires_at=NOW)
    lost = replace(STARTED, status=Status.UNKNOWN)

    assert after_end(FINISHED, noted, owes=owes) == noted
    assert after_end(STARTED, lost, owes=owes) == lost


def test_expiry_has_whole_seconds() -> None:
    late = NOW + timedelta(microseconds=999)

    row = ended(STARTED, FINISHED, retention=DAYS_400, owes=False, now=late)

    assert row.expires_at == NOW + DAYS_400


def test_published_row_expires_and_is_not_due() -> None:
    owing = after_end(owes=True)

    row = published(owing, retention=DAYS_400, now=NOW)

    assert (row.status, row.due_at, row.expires_at) == (Status.FINISHED, None, NOW + DAYS_400)
    assert (row.version, row.evidence) == (owing.version + 1, owing.evidence)


def test_contradiction_clears_expiry_until_next_resolution() -> None:
    row = after_end()

    contradicted = late_answer(row, Refused("never captured", code="gone"), fence=1).on(
        row, now=NOW, actor="worker"
    )
    assert (contradicted.status, contradicted.expires_at) == (Status.NEEDS_REVIEW, None)

    ruled = replace(contradicted, status=Status.FAILED)
    assert after_end(contradicted, ruled).expires_at == NOW + DAYS_400


@pytest.mark.parametrize(
    ("safety", "takes_money", "row_retention", "expected"),
    [
        (Safety.NATURAL, False, timedelta(days=90), timedelta(days=90)),
        (Safety.NATURAL, False, None, PROOF_RETENTION),
        (Safety.KEYED, True, timedelta(days=90), MONEY_RETENTION),
        (Safety.KEYED, False, timedelta(days=90), PROOF_RETENTION),
        (Safety.AT_MOST_ONCE, False, timedelta(days=90), PROOF_RETENTION),
    ],
)
def test_default_retention_follows_safety_and_money(
    safety: Safety, *, takes_money: bool, row_retention: timedelta | None, expected: timedelta
) -> None:
    kept = default_retention(safety, takes_money=takes_money, row_retention=row_retention)

    assert kept == expected


@pytest.mark.parametrize(
    ("job", "may"),
    [
        (a_job(evidence=(RULED,)), True),
        (a_job(evidence=(RULED, NOTED)), True),
        (a_job(evidence=(RULED, REFUSED)), False),
        (a_job(evidence=(REFUSED,)), False),
        (a_job(evidence=()), False),
        (a_job(updated_at=NOW - UNREAD_WAIT), True),
        (a_job(updated_at=NOW - UNREAD_WAIT + TICK), False),
    ],
)
def test_unreadable_row_may_publish_after_repair_or_wait(job: Job, *, may: bool) -> None:
    assert may_be_published_unread(job, NOW) is may
