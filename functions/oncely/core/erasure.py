"""Erasure of personal data: what stays of a job as proof, and when the rest goes."""

from dataclasses import replace
from datetime import datetime
from enum import Enum
from typing import Any, Final, Protocol, runtime_checkable

from oncely.core.effect_outcomes import BusinessWrite, Json
from oncely.core.job_row import NOT_CONFIRMED, Decision, JobRow
from oncely.core.lifecycle import Event

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


@runtime_checkable
class RecordEraser(Protocol):
    """A contract whose business rows hold the data of a record."""

    def erase_record(
        self, record_id: str, *, now: datetime, has_open_jobs: bool
    ) -> BusinessWrite | None:
        """Return the write that erases the row. Returns None if no data is left in it.

        An open job may still write the row, so what the write leaves must prevent that.
        """


def request_erasure(now: datetime) -> Decision:
    """Mark a row. The mark stays, so that no later write brings the data back."""
    return Decision(
        event=Event.ERASE,
        reason="the erasure of personal data was requested",
        changes={"erasure_requested_at": now},
    )


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
