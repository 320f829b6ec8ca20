"""Claiming a job, on every engine: one winner, and the row that refused in the same call."""

from typing import Any

import pytest

from oncely.domain.claims import apply_claim
from oncely.domain.lifecycle import Event, Status
from oncely.ports import Claimed, ClaimFailed, JobStore
from tests.conformance.samples import (
    KEY,
    LEASE,
    apply_event,
    claim_job,
    claimed_job,
    make_claim,
    make_ready_job,
    time_at,
)
from tests.support.dynamo import DynamoFixture


def test_claim_creates_row_when_job_is_absent(store: JobStore) -> None:
    claim = make_claim()

    result = store.claim(claim)
    assert isinstance(result, Claimed)
    job = result.job
    assert (job.status, job.owner) == (Status.STARTED, claim.owner)
    assert (job.fence, job.attempts, job.version) == (1, 1, 1)
    assert job.lease_until == job.due_at == time_at(1) + LEASE
    assert (job, store.get(KEY)) == (apply_claim(None, claim), job)


def test_claim_of_ready_job_increments_counters_and_keeps_data(store: JobStore) -> None:
    sent: dict[str, Any] = {"provider_ref": "pi_1", "fingerprint": "fingerprint-1", "key_number": 2}
    ready = make_ready_job(
        **sent, fence=3, version=7, attempts=2, timeouts=1, owner="owner-0", last_error="timeout"
    )
    store.create(ready)
    claim = make_claim()

    result = store.claim(claim)

    assert isinstance(result, Claimed)
    job = result.job
    assert (job.fence, job.version, job.attempts, job.timeouts) == (4, 8, 3, 1)
    assert {name: getattr(job, name) for name in sent} == sent
    for kept in ("message", "created_at", "evidence"):
        assert getattr(job, kept) == getattr(ready, kept)
    assert (job, store.get(KEY)) == (apply_claim(ready, claim), job)


def test_unresolved_send_keeps_first_sent_time_and_key_scope(store: JobStore) -> None:
    sent = time_at(-60)
    store.create(make_ready_job(first_sent_at=sent, key_scope="account-0", claimed_at=sent))
    job = claim_job(store)
    assert (job.first_sent_at, job.key_scope) == (time_at(-60), "account-0")
    assert job.has_ambiguous_send


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"status": one, "fingerprint": "fingerprint-1"}
            for one in Status
            if one is not Status.READY
        ),
        {"fingerprint": "fingerprint-of-another-amount"},
    ],
    ids=lambda changes: str(changes.get("status", "other fingerprint")),
)
def test_claim_fails_with_row_that_forbids_it(store: JobStore, changes: dict[str, Any]) -> None:
    row = make_ready_job(owner="owner-0", fence=1, **changes)
    store.create(row)
    assert store.claim(make_claim()) == ClaimFailed(row)
    assert store.get(KEY) == row


def test_claim_sets_fingerprint_when_row_has_none(store: JobStore) -> None:
    store.create(make_ready_job())
    job = claim_job(store, fingerprint="fingerprint-1")
    assert (job.fingerprint, store.get(KEY)) == ("fingerprint-1", job)


def test_claim_without_fingerprint_keeps_stored_one(store: JobStore) -> None:
    store.create(make_ready_job(fingerprint="fingerprint-1", customer_id="customer_7"))
    job = claim_job(store, fingerprint=None, customer_id=None)
    assert (job.fingerprint, job.customer_id) == ("fingerprint-1", "customer_7")


def test_claim_without_fingerprint_or_customer_stores_neither(store: JobStore) -> None:
    claim = make_claim(fingerprint=None, customer_id=None, key_scope="")
    assert store.claim(claim) == Claimed(claimed_job(claim))
    assert store.get(KEY) == claimed_job(claim)


def test_repeated_claim_by_same_owner_succeeds(store: JobStore) -> None:
    claim = make_claim()
    assert store.claim(claim) == store.claim(claim) == Claimed(claimed_job(claim))


def test_identical_claim_by_other_owner_fails(store: JobStore) -> None:
    first = claim_job(store)
    assert store.claim(make_claim()) == ClaimFailed(first)


def test_released_job_can_be_claimed_by_another_owner(store: JobStore) -> None:
    first = claim_job(store)
    cleared: Any = dict.fromkeys(("lease_until", "first_sent_at", "key_scope"))
    store.compare_and_swap(first, apply_event(first, Event.RELEASE, attempts=0, **cleared))

    second = claim_job(store, now=time_at(9), key_scope="account-2")
    assert second.owner != first.owner
    assert (second.fence, second.attempts, second.created_at) == (2, 1, first.created_at)
    assert (second.first_sent_at, second.key_scope) == (time_at(9), "account-2")
    assert not second.has_ambiguous_send


def test_claim_is_one_call_whether_it_succeeds_or_fails(dynamo: DynamoFixture) -> None:
    store = dynamo.store()

    won = store.claim(make_claim())
    refused = store.claim(make_claim())

    assert isinstance(won, Claimed)
    assert refused == ClaimFailed(won.job)
    assert dynamo.calls.attempts == ["UpdateItem", "UpdateItem"]


def test_claim_keeps_attributes_of_later_version(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    store.create(make_ready_job())
    dynamo.set_attributes(KEY, of_a_later_version={"depth": 1})

    assert isinstance(store.claim(make_claim()), Claimed)
    row = dynamo.row(KEY)
    assert row is not None
    assert row["of_a_later_version"] == {"M": {"depth": {"N": "1"}}}
