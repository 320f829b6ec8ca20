"""Cancelling a job: only if nothing was done at the provider, and nothing is left open there."""

from dataclasses import replace
from datetime import datetime, timedelta

from oncely.core.closing import needs_closing, return_to_ready
from oncely.core.decisions import ENDED_FIELDS
from oncely.core.ended_jobs import expiry_time
from oncely.core.evidence import EvidenceEntry
from oncely.core.job_row import CANCELLED_BY_OPERATOR, Decision, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import NO_ROW, Event, next_status
from oncely.core.profiles import RetryPolicy
from oncely.core.text import reason_line, single_line


def check_cancel(job: JobRow, policy: RetryPolicy) -> tuple[bool, str] | None:
    """Whether the job can be cancelled, and how. Returns None if its status forbids it."""
    if not job.allows(Event.CANCEL):
        return None
    if not job.was_claimed:
        return True, "ends it: no worker ever claimed it, so nothing was sent"
    if not job.allows(Event.CLOSE_AND_CANCEL):
        return False, "an earlier run may have done it: mark it as done or failed"
    if job.closing is not None:
        return False, "a worker closes what is open at the provider, then the job ends"
    if needs_closing(job, policy):
        provider = policy.profile.name
        return True, (
            f"a worker cancels {job.provider_ref} at {provider}, then the job ends. If it was done "
            "by then, the job is done"
        )
    if job.progress is not None or job.provider_ref is not None or _may_have_sent(job, policy):
        return False, "an earlier run may have done all or part of it: wait until it has ended"
    return True, "ends it: nothing was done at the provider"


def _may_have_sent(job: JobRow, policy: RetryPolicy) -> bool:
    """Whether an open send may have taken effect. A prepared effect cannot."""
    return job.first_sent_at is not None and not policy.leaves_open


def cancel(reason: str) -> Decision:
    """End a job that did nothing at the provider."""
    return Decision(
        event=Event.CANCEL,
        reason=reason,
        changes={
            **ENDED_FIELDS,
            "result": {"code": CANCELLED_BY_OPERATOR},
            "last_error": single_line(reason),
        },
    )


def close_then_cancel(reason: str, now: datetime) -> Decision:
    """Have a worker close what is open at the provider. Only then is the job cancelled."""
    closing = {"reason": single_line(reason), "code": CANCELLED_BY_OPERATOR, "result": {}}
    return return_to_ready(reason, now, {"closing": closing}, event=Event.CLOSE_AND_CANCEL)


def cancelled_job(
    key: JobKey, job_type: str, *, now: datetime, actor: str, reason: str, retention: timedelta
) -> JobRow:
    """The row of a job that is cancelled before its first message: later ones are duplicates."""
    status = next_status(NO_ROW, Event.CANCEL)
    entry = EvidenceEntry(
        at=now,
        event=Event.CANCEL,
        from_status=NO_ROW,
        to_status=status,
        reason=reason_line(reason),
        actor=actor,
    )
    job = JobRow(
        job_key=key,
        job_type=job_type,
        status=status,
        message={},
        created_at=now,
        updated_at=now,
        since=now,
        result={"code": CANCELLED_BY_OPERATOR},
        last_error=reason_line(reason),
        evidence=(entry,),
    )
    return replace(job, expires_at=expiry_time(job, retention, now=now))
