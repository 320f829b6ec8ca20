"""Jobs, claims, terms and outcomes to vary: a test names only what it is about."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from oncely.domain.claims import Claim
from oncely.domain.jobs import Evidence, Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import Profile, Safety, StopRules, Terms
from oncely.services.outcomes import (
    Broken,
    Conflict,
    Continued,
    Duplicate,
    Failed,
    Fenced,
    Finished,
    HeldElsewhere,
    Invalid,
    NeedsReview,
    NothingSent,
    NotStarted,
    Orphaned,
    Outcome,
    OwnershipLost,
    Parked,
    Unknown,
)
from tests.support.fakes import START

NOW: Final = START
KEY: Final = JobKey("payment.charge:order_18452")
TICK: Final = timedelta(microseconds=1)

PROFILE: Final = Profile(
    name="Acme",
    request_timeout=timedelta(seconds=10),
    calls=2,
    key_window=timedelta(hours=24),
    lookup_lag=timedelta(seconds=30),
)
TERMS: Final = Terms(safety=Safety.KEYED, profile=PROFILE, stop=StopRules())

_STARTED: Final = Job(
    job_key=KEY,
    job_type="payment.charge",
    status=Status.STARTED,
    message={"job": "payment.charge", "v": 1, "order_id": "18452"},
    created_at=NOW,
    updated_at=NOW,
    owner="owner-1",
    fence=1,
    attempts=1,
    key_scope="live",
    first_sent_at=NOW,
    claimed_at=NOW,
    lease_until=NOW + timedelta(seconds=60),
    due_at=NOW + timedelta(seconds=60),
    fingerprint="of the order",
    customer_id="customer_7",
)
_CLAIM: Final = Claim(
    job_key=KEY,
    job_type="payment.charge",
    owner="owner-2",
    now=NOW,
    lease_until=NOW + timedelta(seconds=60),
    message=_STARTED.message,
    fingerprint="of the order",
    customer_id="customer_7",
    key_scope="live",
)
_ENTRY: Final = Evidence(
    at=NOW,
    event=Event.WAIT,
    old=Status.UNKNOWN,
    new=Status.UNKNOWN,
    reason="still processing",
    actor="reconciler",
)


def a_job(**changes: object) -> Job:
    """A job that one worker holds, but for what is said here."""
    return replace(_STARTED, **changes)  # type: ignore[arg-type]  # fields by name


def a_claim(**changes: object) -> Claim:
    """A second worker's claim on the same job."""
    return replace(_CLAIM, **changes)  # type: ignore[arg-type]  # fields by name


def an_entry(**changes: object) -> Evidence:
    """A line of evidence."""
    return replace(_ENTRY, **changes)  # type: ignore[arg-type]  # fields by name


_OF: Final[dict[str, Any]] = {"job_key": KEY, "job_type": "payment.charge"}

OUTCOMES: Final[tuple[Outcome, ...]] = (
    Finished(**_OF, result={"charge_id": "ch_1"}),
    Failed(**_OF, reason="declined", result={}),
    Duplicate(**_OF, status=Status.FINISHED, result={"charge_id": "ch_1"}),
    Unknown(**_OF, reason="timeout"),
    NeedsReview(**_OF, reason="two were found"),
    Parked(**_OF, status=Status.UNKNOWN),
    HeldElsewhere(**_OF, until=NOW + timedelta(seconds=60)),
    NothingSent(**_OF, until=NOW + timedelta(seconds=15), reason="connection refused"),
    Continued(**_OF, progress={"page": 3}, sent=True),
    OwnershipLost(**_OF, reason="overtaken"),
    Orphaned(**_OF, reason="its row is gone, and now: charged"),
    NotStarted(**_OF),
    Fenced(**_OF, reason="the job table was restored"),
    Conflict(**_OF, reason="other amount"),
    Invalid("no JSON"),
    Broken(RuntimeError("no table")),
)
