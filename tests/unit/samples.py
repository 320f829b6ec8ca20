"""Jobs, claims, policies and outcomes. A test sets only the fields it is about."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from oncely.core.claims import Claim
from oncely.core.job_row import EvidenceEntry, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.outcomes import (
    Duplicate,
    Ended,
    LeasedElsewhere,
    NeedsReview,
    NotRun,
    NotRunCause,
    OwnershipLost,
    Parked,
    RejectCause,
    Rejected,
    RunOutcome,
    Unknown,
)
from oncely.core.profiles import ProviderProfile, RetryLimits, RetryPolicy, RetrySafety
from oncely.core.store import Claimed
from tests.support.fakes import START
from tests.support.stored_rows import InspectableStore

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

# Rows may wait for a message or because of a dead letter, but no run ends so.
RUN_WAITS: Final = sorted(set(WaitKind) - {WaitKind.MESSAGE, WaitKind.DEAD_LETTER})
OUTCOMES: Final[Mapping[str, RunOutcome]] = {
    "finished": Ended(
        **_JOB_FIELDS, status=Status.FINISHED, reason="charged", result={"charge_id": "ch_1"}
    ),
    "failed": Ended(**_JOB_FIELDS, status=Status.FAILED, reason="declined", result={}),
    "cancelled": Ended(**_JOB_FIELDS, status=Status.CANCELLED, reason="ordered twice", result={}),
    "unknown": Unknown(**_JOB_FIELDS, reason="timeout"),
    "needs review": NeedsReview(**_JOB_FIELDS, reason="two were found"),
    "duplicate": Duplicate(**_JOB_FIELDS, status=Status.FINISHED, result={"charge_id": "ch_1"}),
    "awaits resolution": Duplicate(**_JOB_FIELDS, status=Status.UNKNOWN, result={}),
    "leased": LeasedElsewhere(**_JOB_FIELDS, until=NOW + timedelta(seconds=60)),
    "ownership lost": OwnershipLost(**_JOB_FIELDS, reason="overtaken"),
    **{
        str(kind): Parked(
            **_JOB_FIELDS,
            until=NOW + timedelta(seconds=15),
            kind=kind,
            reason=f"it waits for the {kind}",
            redeliver=True,
        )
        for kind in RUN_WAITS
    },
    **{
        str(cause): Rejected(**_JOB_FIELDS, cause=cause, reason=f"rejected: {cause}")
        for cause in RejectCause
    },
    "no_time": NotRun(**_JOB_FIELDS, cause=NotRunCause.NO_TIME),
    "table_blocked": NotRun(
        **_JOB_FIELDS, cause=NotRunCause.TABLE_BLOCKED, reason="the job table was restored"
    ),
    "error": NotRun(cause=NotRunCause.ERROR, error=RuntimeError("no table")),
}


def claim_row(row: JobRow | None, claim: Claim) -> JobRow:
    """The row after the claim, by the shipped store."""
    store = InspectableStore()
    if row is not None:
        store.jobs[row.job_key] = row
    result = store.claim(claim)
    assert isinstance(result, Claimed)
    return result.job
