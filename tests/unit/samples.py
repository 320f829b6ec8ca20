"""Jobs, claims, policies and outcomes. A test sets only the fields it is about."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from oncely.core.claims import Claim
from oncely.core.evidence import EvidenceEntry
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.profiles import ProviderProfile, RetryLimits, RetryPolicy, RetrySafety
from oncely.run.outcomes import (
    AwaitingResolution,
    Cancelled,
    Conflict,
    Continued,
    Duplicate,
    Failed,
    Finished,
    Held,
    InternalError,
    InvalidMessage,
    LeasedElsewhere,
    NeedsReview,
    NotAttempted,
    NotStarted,
    OwnershipLost,
    RowMissing,
    RunOutcome,
    Scheduled,
    TableFenced,
    Unknown,
    Waiting,
)
from tests.support.fakes import START

NOW: Final = START
KEY: Final = JobKey("payment.charge:order_18452")
TICK: Final = timedelta(microseconds=1)
NO_LIMIT: Final = timedelta(0)  # of a contract that honors no time

PROFILE: Final = ProviderProfile(
    name="Acme",
    request_timeout=timedelta(seconds=10),
    max_calls=2,
    key_ttl=timedelta(hours=24),
    lookup_lag=timedelta(seconds=30),
)
TERMS: Final = RetryPolicy(safety=RetrySafety.KEYED, profile=PROFILE, limits=RetryLimits())

_STARTED: Final = JobRow(
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
    schedule_limit=timedelta(days=365),
    message=_STARTED.message,
    fingerprint="of the order",
    customer_id="customer_7",
    key_scope="live",
)
_ENTRY: Final = EvidenceEntry(
    at=NOW,
    event=Event.RECHECK,
    from_status=Status.UNKNOWN,
    to_status=Status.UNKNOWN,
    reason="still processing",
    actor="reconciler",
)


def make_job(**changes: object) -> JobRow:
    """A started job, with these changes."""
    return replace(_STARTED, **changes)  # type: ignore[arg-type]  # fields by name


def make_claim(**changes: object) -> Claim:
    return replace(_CLAIM, **changes)  # type: ignore[arg-type]  # fields by name


def make_entry(**changes: object) -> EvidenceEntry:
    return replace(_ENTRY, **changes)  # type: ignore[arg-type]  # fields by name


_JOB_FIELDS: Final[dict[str, Any]] = {"job_key": KEY, "job_type": "payment.charge"}

OUTCOMES: Final[tuple[RunOutcome, ...]] = (
    Finished(**_JOB_FIELDS, result={"charge_id": "ch_1"}),
    Failed(**_JOB_FIELDS, reason="declined", result={}),
    Cancelled(**_JOB_FIELDS, reason="ordered twice"),
    Duplicate(**_JOB_FIELDS, status=Status.FINISHED, result={"charge_id": "ch_1"}),
    Unknown(**_JOB_FIELDS, reason="timeout"),
    NeedsReview(**_JOB_FIELDS, reason="two were found"),
    AwaitingResolution(**_JOB_FIELDS, status=Status.UNKNOWN),
    LeasedElsewhere(**_JOB_FIELDS, until=NOW + timedelta(seconds=60)),
    NotAttempted(**_JOB_FIELDS, until=NOW + timedelta(seconds=15), reason="connection refused"),
    Waiting(
        **_JOB_FIELDS,
        until=NOW + timedelta(seconds=5),
        reason="waits for an order",
        row_resends=False,
    ),
    Held(
        **_JOB_FIELDS,
        until=NOW + timedelta(seconds=10),
        reason="stripe has not responded since 03:00",
        row_resends=False,
    ),
    Scheduled(**_JOB_FIELDS, until=NOW + timedelta(days=1)),
    Continued(**_JOB_FIELDS, progress={"page": 3}, sent=True),
    OwnershipLost(**_JOB_FIELDS, reason="overtaken"),
    RowMissing(**_JOB_FIELDS, reason="its row is gone, and now: charged"),
    NotStarted(**_JOB_FIELDS),
    TableFenced(**_JOB_FIELDS, reason="the job table was restored"),
    Conflict(**_JOB_FIELDS, reason="other amount"),
    InvalidMessage("no JSON"),
    InternalError(RuntimeError("no table")),
)
