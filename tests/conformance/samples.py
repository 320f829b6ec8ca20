"""Claims, rows and writes as workers and producers make them."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from oncely.aws.system import new_owner_token
from oncely.domain.claims import Claim, apply_claim
from oncely.domain.effect_outcomes import BusinessWrite, Precondition
from oncely.domain.jobs import Job, new_job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event
from oncely.ports import Claimed, JobStore
from tests.support.fakes import START

KEY: Final = JobKey("payment.charge:order_18452")
RESUBMITTED_KEY: Final = JobKey("payment.charge:order_18452:2")
ORDER_KEY: Final = {"order_id": "18452"}
LEASE: Final = timedelta(seconds=72)


def time_at(seconds: float) -> datetime:
    """A moment after the start, with digits that a careless store would lose."""
    return START + timedelta(seconds=seconds, milliseconds=123)


FIRST_CLAIM: Final = time_at(1)


def new_owner() -> str:
    return new_owner_token()


def make_claim(owner: str = "", *, now: datetime = FIRST_CLAIM, **changes: Any) -> Claim:  # noqa: ANN401  # fields of a claim
    claim = Claim(
        job_key=KEY,
        job_type="payment.charge",
        owner=owner or new_owner(),
        now=now,
        lease_until=now + LEASE,
        message={"job": "payment.charge", "v": 1, "order_id": "18452"},
        fingerprint="fingerprint-1",
        customer_id="customer_7",
        key_scope="account-1",
    )
    return replace(claim, **changes)


def claimed_job(claim: Claim) -> Job:
    job = apply_claim(None, claim)
    assert job is not None
    return job


def make_ready_job(key: JobKey = KEY, **changes: Any) -> Job:  # noqa: ANN401  # fields of a job
    job = new_job(
        key,
        "payment.charge",
        {"job": "payment.charge", "v": 1, "order_id": "18452", "note": "from the producer"},
        now=time_at(0),
        due_at=time_at(900),
        actor="producer",
        reason="enqueued",
    )
    return replace(job, **changes)


def claim_job(store: JobStore, owner: str = "", **changes: Any) -> Job:  # noqa: ANN401  # fields of a claim
    result = store.claim(make_claim(owner, **changes))
    assert isinstance(result, Claimed)
    return result.job


def apply_event(job: Job, event: Event, *, seconds: float = 2, **changes: object) -> Job:
    reason = f"because: {event}"
    return job.apply(event, now=time_at(seconds), actor="worker", reason=reason, **changes)


def add_note(job: Job, *, seconds: float = 3) -> Job:
    return job.apply(Event.NOTE, now=time_at(seconds), actor="another worker", reason="late answer")


def finish_job(job: Job, *, seconds: float = 2) -> Job:
    return apply_event(
        job,
        Event.CONFIRM,
        seconds=seconds,
        provider_ref="pi_1",
        result={"charge_id": "ch_1", "amount": 1250},
        due_at=time_at(seconds + 300),
    )


def fail_job(job: Job) -> Job:
    code = "card_declined"
    return apply_event(job, Event.DECLINE, result={"code": code}, last_error=code)


def paid_order_write(**changes: Any) -> BusinessWrite:  # noqa: ANN401  # fields of a write
    write = BusinessWrite(
        table="orders",
        key=ORDER_KEY,
        set={"status": "paid", "charge_id": "ch_1"},
        remove=("charge_requested_at",),
        preconditions=(
            Precondition("status", ("payment_pending", "payment_failed")),
            Precondition("amount", (1250,)),
        ),
    )
    return replace(write, **changes)


UNPAID_ORDER: Final = {
    "status": "payment_pending",
    "amount": 1250,
    "charge_requested_at": "2026-11-16T02:59:00Z",
}
PAID_ORDER: Final = {**ORDER_KEY, "status": "paid", "amount": 1250, "charge_id": "ch_1"}
