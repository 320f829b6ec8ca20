"""Claims, rows and writes as workers and producers make them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

from oncely.core.claims import Claim
from oncely.core.effect_outcomes import BusinessWrite, Json, Precondition
from oncely.core.job_row import ENGINE_NUMBER, EventMark, EventRecord, JobRow, new_job
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.store import Claimed, JobStore
from oncely.ports import new_owner_token
from tests.support.fakes import START
from tests.unit.samples import make_entry

KEY: Final = JobKey("payment.charge:order_18452")
RESUBMITTED_KEY: Final = JobKey("payment.charge:order_18452:2")
ORDER_KEY: Final = {"order_id": "18452"}
LEASE: Final = timedelta(seconds=72)
SCHEDULE_LIMIT: Final = timedelta(days=1)


def time_at(seconds: float) -> datetime:
    """A time with microseconds, which a careless store would lose."""
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
        schedule_limit=SCHEDULE_LIMIT,
        message={"job": "payment.charge", "v": 1, "order_id": "18452"},
        fingerprint="fingerprint-1",
        customer_id="customer_7",
        key_scope="account-1",
        provider="stripe",
    )
    return replace(claim, **changes)


_COPIED_BY_CLAIM: Final = (
    *("job_key", "job_type", "message", "owner", "lease_until", "fingerprint", "customer_id"),
    *("key_scope", "deployment", "provider", "subject", "amount", "currency"),
)


def claimed_job(claim: Claim) -> JobRow:
    """The row that a claim writes if there was none."""
    return JobRow(
        **{name: getattr(claim, name) for name in _COPIED_BY_CLAIM},
        status=Status.STARTED,
        created_at=claim.now,
        updated_at=claim.now,
        claimed_at=claim.now,
        first_sent_at=claim.now,
        due_at=claim.lease_until,
        fence=1,
        version=1,
        attempts=1,
        resubmissions=claim.resubmissions or (),
    )


def make_ready_job(key: JobKey = KEY, **changes: Any) -> JobRow:  # noqa: ANN401  # fields of a job
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


def claim_job(store: JobStore, owner: str = "", **changes: Any) -> JobRow:  # noqa: ANN401  # fields of a claim
    result = store.claim(make_claim(owner, **changes))
    assert isinstance(result, Claimed)
    return result.job


def apply_event(job: JobRow, event: Event, *, seconds: float = 2, **changes: object) -> JobRow:
    reason = f"because: {event}"
    return job.apply(event, now=time_at(seconds), actor="worker", reason=reason, **changes)


def add_note(job: JobRow, *, seconds: float = 3) -> JobRow:
    return job.apply(Event.NOTE, now=time_at(seconds), actor="another worker", reason="late answer")


def finish_job(job: JobRow, *, seconds: float = 2) -> JobRow:
    return apply_event(
        job,
        Event.CONFIRM,
        seconds=seconds,
        provider_ref="pi_1",
        result={"charge_id": "ch_1", "amount": 1250},
        due_at=time_at(seconds + 300),
    )


def fail_job(job: JobRow) -> JobRow:
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


AWKWARD_VALUES: dict[str, Json] = {
    "float": 12.34,
    "tiny": 1e-300,
    "huge": 10**40,
    "text": "Zoë ☕ \u2028 \x00",
    "empty": "",
    "none": None,
    "flag": True,
    "nested": {"list": [1, 1.5, [], {}, {"deep": None}]},
}

EVIDENCE = (
    make_entry(at=time_at(0), event=Event.ENQUEUE, from_status=None, to_status=Status.READY),
    make_entry(at=time_at(1), reason="unreachable", count=7, last_at=time_at(500)),
)


PROVIDER_EVENTS = (
    EventRecord(
        at=time_at(3), provider="ses", name="Send", mark=EventMark.PROOF, fence=1, ref="0100"
    ),
    EventRecord(
        at=time_at(4), provider="ses", name="Bounce", mark=EventMark.REPORT, code="Permanent"
    ),
)


def job_with_every_field() -> JobRow:
    """A job with a value in every field, including fields that are added later."""
    chosen: dict[str, object] = {
        "job_key": KEY,
        "status": Status.NEEDS_REVIEW,
        "waits_for": WaitKind.MESSAGE,
        "evidence": EVIDENCE,
        "provider_events": PROVIDER_EVENTS,
        "key_scope": "",
        "closing": {"reason": "declined", "code": "declined", "result": AWKWARD_VALUES},
        "min_engine": ENGINE_NUMBER,  # a higher number cannot be read
        "expires_at": datetime(2027, 11, 16, 3, 0, 1, tzinfo=UTC),  # TTL has whole seconds
    }
    kinds = get_type_hints(JobRow)
    for number, name in enumerate(sorted(kinds.keys() - chosen.keys())):
        match set(get_args(kinds[name]) or [kinds[name]]) - {NoneType}:
            case kind if kind == {str}:
                chosen[name] = f"the {name}"
            case kind if kind == {int}:
                chosen[name] = number + 2
            case kind if kind == {bool}:
                chosen[name] = True
            case kind if kind == {datetime}:
                chosen[name] = time_at(number)
            case kind if kind == {datetime, ...}:
                chosen[name] = (time_at(number), time_at(number + 1))
            case _:
                chosen[name] = AWKWARD_VALUES
    return JobRow(**chosen)  # type: ignore[arg-type]  # fields by name
