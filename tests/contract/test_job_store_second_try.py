"""A claim that needs another job to have failed, on every engine: both rows in one look."""

import pytest

from oncely.domain.claims import Claim, claimed
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.ports import Claimed, ClaimRefused, JobStore, RequirementUnmet
from tests.contract.places import Place
from tests.contract.samples import (
    KEY,
    SECOND_TRY,
    a_claim,
    a_ready_job,
    at,
    failed,
    finished,
    moved,
    started,
)
from tests.support.dynamo import Dynamo


def a_second_try() -> Claim:
    return a_claim(job_key=SECOND_TRY, requires_failed=KEY, now=at(9))


def claimed_by(claim: Claim) -> Job:
    job = claimed(None, claim)
    assert job is not None
    return job


def first_try_failed(store: JobStore) -> None:
    first = started(store)
    store.swap(first, failed(first))


def test_resubmitted_job_is_claimed_when_first_failed(store: JobStore) -> None:
    first_try_failed(store)
    first = store.get(KEY)
    claim = a_second_try()

    result = store.claim(claim)

    assert result == Claimed(claimed_by(claim))
    assert store.get(SECOND_TRY) == claimed_by(claim)
    assert store.get(KEY) == first


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.FAILED])
def test_resubmitted_job_is_not_claimed_unless_first_failed(
    store: JobStore, status: Status
) -> None:
    first = a_ready_job(status=status, owner="owner-1", fence=1)
    store.create(first)

    assert store.claim(a_second_try()) == RequirementUnmet(first)
    assert store.get(SECOND_TRY) is None
    assert store.get(KEY) == first


def test_resubmitted_job_is_not_claimed_without_first(store: JobStore) -> None:
    assert store.claim(a_second_try()) == RequirementUnmet(None)
    assert store.get(SECOND_TRY) is None
    assert store.get(KEY) is None


def test_claim_of_started_resubmitted_job_fails_with_its_row(store: JobStore) -> None:
    first_try_failed(store)
    theirs = started(store, job_key=SECOND_TRY)

    assert store.claim(a_second_try()) == ClaimRefused(theirs)
    assert store.get(SECOND_TRY) == theirs


def test_ready_resubmitted_job_keeps_message_and_evidence(store: JobStore) -> None:
    first_try_failed(store)
    ready = a_ready_job(SECOND_TRY)
    store.create(ready)

    result = store.claim(a_second_try())

    assert isinstance(result, Claimed)
    assert (result.job.message, result.job.evidence) == (ready.message, ready.evidence)


def test_resubmitted_claim_fails_when_fingerprint_differs(store: JobStore) -> None:
    first_try_failed(store)
    ready = a_ready_job(SECOND_TRY, fingerprint="fingerprint-of-another-amount")
    store.create(ready)

    assert store.claim(a_second_try()) == ClaimRefused(ready)


def test_ended_resubmission_is_returned_when_first_is_reviewed(
    place: Place,
) -> None:
    first = started(place.store)
    place.store.swap(first, failed(first))
    second = started(place.store, job_key=SECOND_TRY)
    ended = finished(second)
    place.store.swap(second, ended)
    in_doubt = moved(failed(first), Event.CONTRADICT, seconds=5)
    place.store.swap(failed(first), in_doubt)

    result = place.store.claim(a_second_try())

    assert result == ClaimRefused(ended)


def test_repeated_resubmitted_claim_by_same_owner_succeeds(place: Place) -> None:
    first_try_failed(place.store)
    claim = a_second_try()
    place.store.claim(claim)

    assert place.store.claim(claim) == Claimed(claimed_by(claim))


def test_both_rows_are_checked_in_one_transaction(dynamo: Dynamo) -> None:
    store = dynamo.store()
    first_try_failed(store)
    dynamo.calls.forget()

    store.claim(a_second_try())
    store.claim(a_second_try())

    # A transaction does not give the row that it wrote: the winner reads it.
    assert dynamo.calls.tries == ["TransactWriteItems", "GetItem", "TransactWriteItems"]
