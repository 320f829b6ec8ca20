"""Claiming a job, on every engine: one winner, and the row that refused in the same call."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from oncely.core.claims import ClaimFailure, classify_claim_failure
from oncely.core.errors import UnavailableError, UnreadableRowError
from oncely.core.job_row import ENGINE_NUMBER, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.schedule import MAX_SCHEDULE_LIMIT, latest_run_at
from oncely.core.store import Claimed, ClaimFailed, JobStore, PrerequisiteNotMet
from tests.conformance.samples import (
    KEY,
    LEASE,
    RESUBMITTED_KEY,
    SCHEDULE_LIMIT,
    apply_event,
    claim_job,
    claimed_job,
    make_claim,
    make_ready_job,
    time_at,
)
from tests.support.dynamo import DynamoFixture

RIGHT: Final = {"job": "payment.charge", "v": 1, "order_id": "18452"}
WRONG: Final = {**RIGHT, "amount": 1}


def make_review(key: JobKey = KEY, **changes: Any) -> JobRow:  # noqa: ANN401  # fields of a job
    review = apply_event(
        make_ready_job(key, message=WRONG),
        Event.ESCALATE,
        waits_for=WaitKind.MESSAGE,
        last_error="waited",
        age_from=time_at(60),
    )
    return replace(review, **{"version": 7, **changes})


def test_claim_creates_row_when_job_is_absent(store: JobStore) -> None:
    claim = make_claim()

    result = store.claim(claim)
    assert isinstance(result, Claimed)
    job = result.job
    assert (job.status, job.owner) == (Status.STARTED, claim.owner)
    assert (job.fence, job.attempts, job.version) == (1, 1, 1)
    assert job.lease_until == job.due_at == time_at(1) + LEASE
    assert (job, store.get(KEY)) == (claimed_job(claim), job)


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
    assert store.get(KEY) == job


def test_unresolved_send_keeps_first_sent_time_and_key_scope(store: JobStore) -> None:
    sent = time_at(-60)
    store.create(make_ready_job(first_sent_at=sent, key_scope="account-0", claimed_at=sent))
    job = claim_job(store)
    assert (job.first_sent_at, job.key_scope) == (time_at(-60), "account-0")
    assert job.has_ambiguous_send


def test_claim_fills_in_what_row_lacks(store: JobStore) -> None:
    store.create(make_ready_job(key_scope="", customer_id=None))
    job = claim_job(store, customer_id="customer_7", amount=1250, currency="eur")
    assert (job.first_sent_at, job.key_scope) == (time_at(1), "")
    assert (job.customer_id, job.amount, job.currency) == ("customer_7", 1250, "eur")
    assert not job.has_ambiguous_send


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


def test_claim_sets_fingerprint_and_its_message_together(store: JobStore) -> None:
    store.create(make_ready_job(message=WRONG))
    job = claim_job(store, fingerprint="fingerprint-1", message=RIGHT)
    assert (job.fingerprint, job.message, store.get(KEY)) == ("fingerprint-1", RIGHT, job)


def test_claim_corrects_job_type(store: JobStore) -> None:
    """A producer may insert any, and with a wrong one no follow-up is ever sent."""
    store.create(make_ready_job(job_type="receipt.send"))
    job = claim_job(store)
    assert (job.job_type, store.get(KEY)) == ("payment.charge", job)


@pytest.mark.parametrize("fingerprint", ["fingerprint-1", None])
def test_claim_with_other_message_keeps_first_one(store: JobStore, fingerprint: str | None) -> None:
    store.create(make_ready_job(message=RIGHT, fingerprint="fingerprint-1"))
    job = claim_job(store, fingerprint=fingerprint, message={**RIGHT, "amount": 1250})
    assert (job.message, store.get(KEY)) == (RIGHT, job)


def test_claim_takes_review_that_sent_nothing(store: JobStore) -> None:
    review = make_review()
    store.create(review)
    claim = make_claim(reopens=review, message=RIGHT)

    result = store.claim(claim)

    assert isinstance(result, Claimed)
    job = result.job
    assert (job.status, job.waits_for, job.message) == (Status.STARTED, None, RIGHT)
    assert (job.age_from, job.since) == (claim.now, None)
    assert job.evidence[-1].event is Event.CLAIM_REVIEW
    assert store.get(KEY) == job


def test_review_of_the_same_values_is_taken_with_its_own_message(store: JobStore) -> None:
    claim = make_claim()
    review = make_review(fingerprint=claim.fingerprint)
    store.create(review)

    result = store.claim(replace(claim, reopens=review))

    assert isinstance(result, Claimed)
    assert (result.job.status, result.job.message) == (Status.STARTED, WRONG)


@pytest.mark.parametrize(
    "changes",
    [
        {"waits_for": None},
        {"waits_for": WaitKind.DEAD_LETTER},
        {"fence": 1},
        {"version": 8},
        {"fingerprint": "fingerprint-of-another-amount"},
        {"status": Status.UNKNOWN},
    ],
    ids=str,
)
def test_review_that_differs_from_what_was_read_is_not_taken(
    store: JobStore, changes: dict[str, Any]
) -> None:
    row = make_review(**changes)
    store.create(row)
    assert store.claim(make_claim(reopens=make_review())) == ClaimFailed(row)
    assert store.get(KEY) == row


def test_review_is_not_taken_by_claim_that_did_not_read_it(store: JobStore) -> None:
    store.create(make_review())
    assert store.claim(make_claim()) == ClaimFailed(make_review())


def test_absent_review_is_not_created(store: JobStore) -> None:
    claim = make_claim(reopens=make_review())
    with pytest.raises(UnavailableError):
        store.claim(claim)
    assert store.get(KEY) is None


def test_review_is_taken_only_if_prerequisite_failed(store: JobStore) -> None:
    review, first = make_review(RESUBMITTED_KEY), make_ready_job()
    store.create(review)
    store.create(first)
    claim = make_claim(job_key=RESUBMITTED_KEY, reopens=review, requires_failed=KEY)

    assert store.claim(claim) == PrerequisiteNotMet(first)

    failed = replace(first, status=Status.FAILED, version=2, last_error="declined")
    store.swap(first, failed)
    assert isinstance(store.claim(claim), Claimed)


def test_review_that_was_taken_leaves_attention_index(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    store.create(make_review())
    store.claim(make_claim(reopens=make_review()))
    row = dynamo.row(KEY)
    assert row is not None
    assert not {"attention", "since", "waits_for"} & row.keys()


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
    store.swap(first, apply_event(first, Event.RELEASE, attempts=0, **cleared))

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


@pytest.mark.parametrize(("message", "calls"), [(RIGHT, 1), ({**RIGHT, "amount": 1250}, 2)])
def test_only_differently_worded_message_costs_second_call(
    dynamo: DynamoFixture, message: dict[str, Any], calls: int
) -> None:
    store = dynamo.store()
    store.create(make_ready_job(message=RIGHT, fingerprint="fingerprint-1"))
    assert isinstance(store.claim(make_claim(message=message)), Claimed)
    assert dynamo.calls.attempts == ["PutItem", *["UpdateItem"] * calls]


def test_claim_keeps_attributes_of_later_version(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    store.create(make_ready_job())
    dynamo.set_attributes(KEY, of_a_later_version={"depth": 1})

    assert isinstance(store.claim(make_claim()), Claimed)
    row = dynamo.row(KEY)
    assert row is not None
    assert row["of_a_later_version"] == {"M": {"depth": {"N": "1"}}}


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        (make_ready_job(min_engine=ENGINE_NUMBER + 1), {}),
        (make_ready_job(min_engine=ENGINE_NUMBER + 1, fingerprint="fingerprint-1"), {}),
        (make_review(min_engine=ENGINE_NUMBER + 1), {"reopens": make_review()}),
    ],
    ids=["ready", "claimed before", "review"],
)
def test_row_of_newer_engine_is_left_alone(
    store: JobStore, row: JobRow, changes: dict[str, Any]
) -> None:
    store.create(row)
    with pytest.raises(UnreadableRowError, match="deploy the newer version again"):
        store.claim(make_claim(**changes))
    with pytest.raises(UnreadableRowError, match="needs engine 2, and this is engine 1"):
        store.get(KEY)


def test_refused_claim_leaves_row_of_newer_engine_unchanged(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    store.create(make_ready_job(min_engine=ENGINE_NUMBER + 1))
    before = dynamo.row(KEY)
    with pytest.raises(UnreadableRowError):
        store.claim(make_claim())
    assert dynamo.row(KEY) == before


def test_claim_of_newer_engine_keeps_older_ones_away(
    dynamo: DynamoFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback to the first engine, whose rows have no number."""
    store = dynamo.store()
    store.create(make_ready_job())
    with monkeypatch.context() as newer:
        newer.setattr("oncely.core.job_row.ENGINE_NUMBER", 2)
        newer.setattr("oncely.core.store.ENGINE_NUMBER", 2)
        claimed = store.claim(make_claim())
        assert isinstance(claimed, Claimed)
        assert claimed.job.min_engine == 2
        store.swap(claimed.job, apply_event(claimed.job, Event.RELEASE))
    with pytest.raises(UnreadableRowError, match="needs engine 2"):
        store.claim(make_claim(now=time_at(60)))


def test_claim_fails_before_time_to_run(store: JobStore) -> None:
    store.create(make_ready_job(run_at=time_at(60), due_at=time_at(60)))

    early = make_claim(now=time_at(60) - timedelta(milliseconds=1))
    refused = store.claim(early)
    assert isinstance(refused, ClaimFailed)
    failure = classify_claim_failure(refused.row, early, early.now, early.schedule_limit)
    assert failure is ClaimFailure.EARLY
    assert refused.row == store.get(KEY)

    assert isinstance(store.claim(make_claim(now=time_at(60))), Claimed)


@pytest.mark.parametrize("limit", [timedelta(0), SCHEDULE_LIMIT, MAX_SCHEDULE_LIMIT])
def test_claim_ignores_time_that_is_not_honored(store: JobStore, limit: timedelta) -> None:
    """The condition, which DynamoDB checks without a read, agrees with the rule of the domain."""
    now, moment = time_at(60), timedelta(milliseconds=1)
    latest = latest_run_at(now, limit)
    early = ClaimFailed if limit else Claimed
    cases = [(now, Claimed), (now + moment, early), (latest, early), (latest + moment, Claimed)]
    for number, (run_at, expected) in enumerate(cases):
        row = make_ready_job(JobKey(f"payment.charge:order_{number}"), run_at=run_at)
        store.create(row)
        claim = make_claim(now=now, job_key=row.job_key, schedule_limit=limit)
        result = store.claim(claim)
        assert isinstance(result, expected), run_at
        kept = result.job if isinstance(result, Claimed) else row
        assert store.get(row.job_key) == kept


def test_claim_of_begun_job_fails_before_its_time(store: JobStore) -> None:
    """The claim that keeps the message of the fingerprint has the same condition."""
    ready = make_ready_job(run_at=time_at(60), fingerprint="fingerprint-1", fence=1, owner="a")
    store.create(ready)
    assert isinstance(store.claim(make_claim(now=time_at(59))), ClaimFailed)
    claimed = store.claim(make_claim(now=time_at(61)))
    assert isinstance(claimed, Claimed)
    assert claimed.job.message == ready.message
