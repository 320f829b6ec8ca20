"""What an ended job still has to publish, and how long its row is kept as proof."""

from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from oncely.core.effect_outcomes import Json
from oncely.core.job_row import NOT_CONFIRMED, RESOLVED, Decision, JobRow
from oncely.core.keys import indexable_id
from oncely.core.lifecycle import ENDED, Event
from oncely.core.schedule import MAX_SCHEDULE_LIMIT

# Longer than a year, so that a yearly replay or audit still finds the row.
PROOF_RETENTION: Final = timedelta(days=400)
# Customers ask "was I charged twice?" years later.
MONEY_RETENTION: Final = timedelta(days=7 * 365)
# The stream publishes within seconds. A sweep publishes what it missed after this time.
PUBLISH_GRACE: Final = timedelta(minutes=5)
# A version that was rolled back is redeployed within this time, or never.
ROLLBACK_GRACE: Final = timedelta(days=1)


def finalize_if_ended(
    before: JobRow, after: JobRow, *, retention: timedelta, must_publish: bool, now: datetime
) -> JobRow:
    """Give a job that ends with this write its expiry, or leave it due if it must publish first.

    Its due time stays, so that the index entry does not move. Publishing sets the expiry.
    """
    if before.status in ENDED or after.status not in ENDED:
        return after
    # An erasure finds ended jobs by customer. Before a claim, only the message has it.
    named = before.message.get("customer_id")
    if after.customer_id is None and isinstance(named, str):
        after = replace(after, customer_id=indexable_id(named))
    if must_publish:
        return replace(after, due_at=after.due_at or now + PUBLISH_GRACE, expires_at=None)
    return replace(after, due_at=None, expires_at=expiry_time(after, retention, now=now))


def awaits_publishing(job: JobRow) -> bool:
    """Whether an ended job may have follow-ups or an event to send."""
    return job.ended and job.due_at is not None


def mark_published(job: JobRow, *, retention: timedelta, now: datetime) -> JobRow:
    """The row after everything was published: it may expire. Adds no evidence."""
    return replace(
        job, version=job.version + 1, due_at=None, expires_at=expiry_time(job, retention, now=now)
    )


def publishable_without_follow_ups(job: JobRow, now: datetime) -> bool:
    """Whether an ended job of an unknown contract may expire without its follow-ups.

    An operator resolved it, or the version that knows them was not redeployed for a day.
    """
    moves = [entry.event for entry in job.evidence if entry.from_status != entry.to_status]
    return bool(RESOLVED.intersection(moves[-1:])) or (now - job.updated_at >= ROLLBACK_GRACE)


def expiry_time(job: JobRow, retention: timedelta, *, now: datetime) -> datetime:
    """Return when a row that ends now expires.

    Retention counts from the run time of a job that was cancelled before. The time of a claimed
    job has come, or was not honored.
    """
    ends = now
    if job.run_at is not None and not job.was_claimed:
        ends = max(now, min(job.run_at, now + MAX_SCHEDULE_LIMIT))
    # Whole seconds, as the row stores them: a lost response must still match the row.
    return (ends + retention).replace(microsecond=0)


# What stays of a job. A field that is not listed may name a person: the message, the result, the
# business values, their fingerprint (a hash of few possible values can be reversed), every text.
PROOF_FIELDS: Final = frozenset(
    {"job_key", "job_type", "status", "created_at", "updated_at", "claimed_at", "since"}
    | {"owner", "fence", "version", "attempts", "key_number", "key_scope", "deployment"}
    | {"provider", "provider_ref", "resubmissions", "due_at", "run_at"}
    | {"expires_at", "erasure_requested_at"}
)


class DataOwner(Enum):
    """The attribute that identifies whose personal data a row holds."""

    CUSTOMER = "customer_id"
    RECORD = "subject"  # a record of another system, such as `crm#4419`


def request_erasure(now: datetime) -> Decision:
    """Mark a row. The mark stays, so that no later write brings the data back."""
    return Decision(
        event=Event.ERASE,
        reason="the erasure of personal data was requested",
        changes={"erasure_requested_at": now},
    )


def erase_again(job: JobRow, now: datetime) -> JobRow:
    """Erase a restored row, whose data was erased before."""
    return erase_if_complete(replace(job, version=job.version + 1, erasure_requested_at=now))


def is_complete(job: JobRow) -> bool:
    """Whether the job's data is no longer needed: it has ended, and nothing is left to publish."""
    return job.ended and job.due_at is None


def erase_if_complete(job: JobRow) -> JobRow:
    """The row as every store writes it: marked, ended and published, it holds only the proof.

    Until then the job needs its data: to run, to be reviewed, or to send its follow-ups.
    """
    if job.erasure_requested_at is None or not is_complete(job):
        return job
    proof: dict[str, Any] = {name: getattr(job, name) for name in PROOF_FIELDS}
    evidence = tuple(replace(entry, reason="") for entry in job.evidence)
    code = (job.result or {}).get("code")
    result: dict[str, Json] | None = {"code": code} if code in NOT_CONFIRMED else None
    # Later reports of a provider are personal data, such as a complaint.
    events = job.proofs
    return JobRow(**proof, message={}, result=result, evidence=evidence, provider_events=events)


def holds_only_proof(job: JobRow) -> bool:
    """Whether its personal data was erased."""
    return job.erasure_requested_at is not None and not job.message
