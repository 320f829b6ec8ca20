"""The record of a job: how an event and a claim change it."""

from datetime import timedelta

import pytest

from oncely.core.claims import apply_claim
from oncely.core.errors import IllegalTransitionError
from oncely.core.job_row import JobRow, new_job
from oncely.core.lifecycle import Event, Status
from tests.unit.samples import KEY, NOW, TICK, make_claim, make_job

LATER = NOW + timedelta(minutes=5)


def test_enqueued_job_is_ready_and_due() -> None:
    job = new_job(
        KEY, "payment.charge", {"v": 1}, now=NOW, due_at=LATER, actor="producer", reason="enqueued"
    )

    assert (job.status, job.due_at, job.version) == (Status.READY, LATER, 1)
    assert (job.fence, job.attempts, job.was_claimed) == (0, 0, False)
    assert [(entry.event, entry.actor) for entry in job.evidence] == [(Event.ENQUEUE, "producer")]


def test_claim_creates_missing_row() -> None:
    claim = make_claim()

    assert apply_claim(None, claim) == JobRow(
        job_key=claim.job_key,
        job_type=claim.job_type,
        status=Status.STARTED,
        message=claim.message,
        created_at=NOW,
        updated_at=NOW,
        owner="owner-2",
        fence=1,
        version=1,
        attempts=1,
        key_scope="live",
        first_sent_at=NOW,
        claimed_at=NOW,
        lease_until=claim.lease_until,
        due_at=claim.lease_until,
        fingerprint="of the order",
        customer_id="customer_7",
    )


def test_claim_of_ready_row_is_counted_and_owned() -> None:
    row = make_job(status=Status.READY, fence=3, version=9, attempts=2, owner="owner-1")
    claim = make_claim(now=LATER, lease_until=LATER + timedelta(seconds=60))

    job = apply_claim(row, claim)

    assert job is not None
    assert (job.status, job.owner) == (Status.STARTED, "owner-2")
    assert (job.fence, job.version, job.attempts) == (4, 10, 3)
    assert job.lease_until == job.due_at == claim.lease_until
    assert (job.claimed_at, job.updated_at, job.created_at) == (LATER, LATER, NOW)


def test_claim_keeps_known_values_of_row() -> None:
    row = make_job(status=Status.READY)
    other = {"key_scope": "test", "customer_id": "customer_8", "message": {"order_id": "other"}}

    job = apply_claim(row, make_claim(now=LATER, **other))

    assert job is not None
    assert (job.first_sent_at, job.key_scope, job.customer_id) == (NOW, "live", "customer_7")
    assert (job.message, job.fingerprint) == (row.message, row.fingerprint)
    assert job.has_ambiguous_send


def test_claim_fills_in_missing_values_of_row() -> None:
    missing = dict.fromkeys(("first_sent_at", "key_scope", "customer_id", "fingerprint"))

    job = apply_claim(make_job(status=Status.READY, **missing), make_claim(now=LATER))

    assert job is not None
    assert (job.first_sent_at, job.key_scope) == (LATER, "live")
    assert (job.customer_id, job.fingerprint) == ("customer_7", "of the order")
    assert not job.has_ambiguous_send


@pytest.mark.parametrize(
    ("row", "claim"), [({}, {"fingerprint": None}), ({"key_scope": ""}, {"key_scope": "live"})]
)
def test_claim_keeps_fingerprint_and_even_empty_key_scope(
    row: dict[str, object], claim: dict[str, object]
) -> None:
    before = make_job(status=Status.READY, **row)
    job = apply_claim(before, make_claim(**claim))
    assert job is not None
    assert (job.fingerprint, job.key_scope) == (before.fingerprint, before.key_scope)


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.READY}))
def test_claim_fails_unless_row_is_ready(status: Status) -> None:
    assert apply_claim(make_job(status=status), make_claim()) is None


def test_claim_with_other_business_values_fails() -> None:
    assert apply_claim(make_job(status=Status.READY), make_claim(fingerprint="of another")) is None


def test_lease_expires_exactly_at_its_end_time() -> None:
    job = make_job(lease_until=LATER)
    assert not job.lease_expired(LATER - TICK)
    assert job.lease_expired(LATER)


def test_event_adds_version_and_evidence_entry() -> None:
    job = make_job(version=4)

    result = {"charge_id": "ch_1"}

    after = job.apply(Event.CONFIRM, now=LATER, actor="worker", reason="charged", result=result)

    assert (after.status, after.version, after.updated_at) == (Status.FINISHED, 5, LATER)
    assert (after.ended, after.result) == (True, result)
    (entry,) = after.evidence
    assert (entry.from_status, entry.to_status) == (Status.STARTED, Status.FINISHED)
    assert (entry.at, entry.actor, entry.reason) == (LATER, "worker", "charged")


def test_illegal_event_raises_error() -> None:
    with pytest.raises(IllegalTransitionError, match="finished cannot take the event claim"):
        make_job(status=Status.FINISHED).apply(Event.CLAIM, now=NOW, actor="worker", reason="again")
