"""A job's history as lines that people read, from its evidence and the times on its row."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from oncely.domain.jobs import EvidenceEntry, Job
from oncely.domain.lifecycle import NO_ROW, Event, Status


def timeline(job: Job) -> tuple[EvidenceEntry, ...]:
    """The job's history, the oldest first."""
    # A stable sort: what happened in the same moment stays in its order.
    return tuple(sorted([*_claim_entries(job), *job.evidence], key=lambda line: line.at))


def describe_event(event: str) -> str:
    """What an event means; one of a newer version speaks for itself."""
    return _DESCRIPTIONS.get(event, event)


def _claim_entries(job: Job) -> list[EvidenceEntry]:
    """A claim leaves no entry, since it must cost one write; the row's own times tell of two."""
    if job.claimed_at is None:
        return []
    began = not job.evidence or job.evidence[0].event is not Event.ENQUEUE
    first = (
        [_claim_entry(job.created_at, NO_ROW, 1)]
        if began and job.created_at < job.claimed_at
        else []
    )
    by_claim = began and not first
    return [*first, _claim_entry(job.claimed_at, NO_ROW if by_claim else Status.READY, job.fence)]


def _claim_entry(at: datetime, old: Status | None, number: int) -> EvidenceEntry:
    return EvidenceEntry(
        at=at,
        event=Event.CLAIM,
        from_status=old,
        to_status=Status.STARTED,
        reason=f"run {number}",
        actor="worker",
    )


_DESCRIPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Event.ENQUEUE: "it was asked for",
        Event.RESEND: "its message was sent again",
        Event.DEFER: "its message was given up; it is tried again later",
        Event.CLAIM: "a worker took it",
        Event.CHECKPOINT: "something was saved on the way",
        Event.CONFIRM: "the provider said yes",
        Event.DECLINE: "the provider said no",
        Event.RELEASE: "nothing was done; it waits for its next try",
        Event.MARK_UNKNOWN: "it is not known whether it was done",
        Event.RECHECK: "asked, and not known yet",
        Event.REQUEUE: "it was certainly not done; it is tried again",
        Event.ESCALATE: "no rule may decide; a person must look",
        Event.ALERT: "a person was told",
        Event.CONTRADICT: "something speaks against its end; a person must look",
        Event.RESTORE: "the job table was restored; its provider is asked",
        Event.NOTE: "noted",
        Event.RESOLVE_FINISHED: "a person marked it as done",
        Event.RESOLVE_FAILED: "a person marked it as failed",
        Event.REOPEN: "a person returned it to ready",
        Event.CLOSE_AND_FAIL: "a person wants it failed; a worker closes what is open first",
    }
)
