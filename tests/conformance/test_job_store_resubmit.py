"""A claim that requires another job to have failed, on every engine: one check of both rows."""

from dataclasses import replace
from datetime import datetime
from typing import Final

import pytest

from oncely.core.claims import Claim
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, Status
from oncely.core.store import Claimed, ClaimFailed, JobStore, PrerequisiteNotMet
from tests.conformance.samples import (
    KEY,
    RESUBMITTED_KEY,
    apply_event,
    claim_job,
    claimed_job,
    fail_job,
    finish_job,
    make_claim,
    make_ready_job,
    time_at,
)
from tests.support.dynamo import DynamoFixture


def make_resubmission_claim(previous: tuple[datetime, ...] | None = None) -> Claim:
    return make_claim(
        job_key=RESUBMITTED_KEY,
        requires_failed=KEY,
        previous_resubmissions=previous,
        now=time_at(9),
    )


def add_failed_job(store: JobStore) -> JobRow:
    first = claim_job(store)
    failed = fail_job(first)
    store.swap(first, failed)
    return failed


def test_resubmitted_job_is_claimed_when_first_failed(store: JobStore) -> None:
    first = add_failed_job(store)
    claim = make_resubmission_claim()

    for _ in range(2):  # by the same owner: the first reply may be lost
        assert store.claim(claim) == Claimed(claimed_job(claim))
        assert store.get(RESUBMITTED_KEY) == claimed_job(claim)
    assert store.get(KEY) == first


@pytest.mark.parametrize("status", sorted({*Status} - {Status.FAILED}))
def test_resubmission_is_not_claimed_unless_first_failed(store: JobStore, status: Status) -> None:
    first = make_ready_job(status=status, owner="owner-1", fence=1)
    store.create(first)
    assert store.claim(make_resubmission_claim()) == PrerequisiteNotMet(first)
    assert store.get(RESUBMITTED_KEY) is None
    assert store.get(KEY) == first


def test_resubmitted_job_is_not_claimed_without_first(store: JobStore) -> None:
    assert store.claim(make_resubmission_claim()) == PrerequisiteNotMet(None)
    assert store.get(RESUBMITTED_KEY) is None
    assert store.get(KEY) is None


def test_claim_of_started_resubmission_fails_with_its_row(store: JobStore) -> None:
    add_failed_job(store)
    theirs = claim_job(store, job_key=RESUBMITTED_KEY)
    assert store.claim(make_resubmission_claim()) == ClaimFailed(theirs)
    assert store.get(RESUBMITTED_KEY) == theirs


def test_ready_resubmitted_job_keeps_message_and_evidence(store: JobStore) -> None:
    add_failed_job(store)
    ready = make_ready_job(RESUBMITTED_KEY, fingerprint="fingerprint-1")
    store.create(ready)

    result = store.claim(make_resubmission_claim())
    assert isinstance(result, Claimed), "a second transaction keeps the message"
    assert (result.job.message, result.job.evidence) == (ready.message, ready.evidence)


def test_resubmitted_claim_fails_when_fingerprint_differs(store: JobStore) -> None:
    add_failed_job(store)
    ready = make_ready_job(RESUBMITTED_KEY, fingerprint="fingerprint-of-another-amount")
    store.create(ready)
    assert store.claim(make_resubmission_claim()) == ClaimFailed(ready)


def test_ended_resubmission_is_returned_when_first_is_reviewed(store: JobStore) -> None:
    failed = add_failed_job(store)
    second = claim_job(store, job_key=RESUBMITTED_KEY)
    ended = finish_job(second)
    store.swap(second, ended)
    store.swap(failed, apply_event(failed, Event.CONTRADICT, seconds=5))

    assert store.claim(make_resubmission_claim()) == ClaimFailed(ended)


SEEN: Final = (time_at(2), time_at(5))


@pytest.mark.parametrize("stored", [(), SEEN[:1], SEEN])
@pytest.mark.parametrize("read", [None, (), SEEN[:1], SEEN])
def test_resubmission_is_claimed_only_with_counted_resubmissions(
    store: JobStore, stored: tuple[datetime, ...], read: tuple[datetime, ...] | None
) -> None:
    first = claim_job(store)
    failed = replace(fail_job(first), resubmissions=stored)
    store.swap(first, failed)
    claim = make_resubmission_claim(read)

    result = store.claim(claim)

    if read not in {None, stored}:
        assert result == PrerequisiteNotMet(failed)
        assert store.get(RESUBMITTED_KEY) is None
        return
    assert isinstance(result, Claimed)
    assert result.job == store.get(RESUBMITTED_KEY) == claimed_job(claim)
    assert result.job.resubmissions == (() if read is None else (*read, claim.now))


def test_resubmissions_are_counted_once_when_claimed_again(store: JobStore) -> None:
    add_failed_job(store)
    ready = make_ready_job(RESUBMITTED_KEY, resubmissions=SEEN)
    store.create(ready)

    result = store.claim(make_resubmission_claim(()))

    assert isinstance(result, Claimed)
    assert result.job.resubmissions == SEEN


def test_both_rows_are_checked_in_one_transaction(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    add_failed_job(store)
    dynamo.calls.reset()

    store.claim(make_resubmission_claim())
    store.claim(make_resubmission_claim())

    # A transaction does not return the row that it wrote, so the winner reads it.
    assert dynamo.calls.attempts == ["TransactWriteItems", "GetItem", "TransactWriteItems"]
