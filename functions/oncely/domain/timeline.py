"""A job's timeline, from its evidence and the times on its row."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from oncely.domain.jobs import EvidenceEntry, Job
from oncely.domain.lifecycle import NO_ROW, Event, Status


def timeline(job: Job) -> tuple[EvidenceEntry, ...]:
    """The job's history, oldest first."""
    # The sort is stable, so entries of the same time keep their order.
    return tuple(sorted([*_claim_entries(job), *job.evidence], key=lambda line: line.at))


def describe_event(event: str) -> str:
    """What an event means. An event of a newer version is shown by its name."""
    return _DESCRIPTIONS.get(event, event)


def _claim_entries(job: Job) -> list[EvidenceEntry]:
    """A claim is one write and adds no evidence. The row's times show the first and the last."""
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
        Event.ENQUEUE: "enqueued",
        Event.RESEND: "message resent",
        Event.DEFER: "message dead-lettered; retried later",
        Event.CLAIM: "claimed by a worker",
        Event.CHECKPOINT: "progress saved",
        Event.CONFIRM: "confirmed by the provider",
        Event.DECLINE: "declined by the provider",
        Event.RELEASE: "nothing was done; waiting for a retry",
        Event.MARK_UNKNOWN: "outcome unknown",
        Event.RECHECK: "looked up; outcome still unknown",
        Event.REQUEUE: "certainly not done; ready for a retry",
        Event.ESCALATE: "needs review: the outcome could not be determined automatically",
        Event.ALERT: "operators alerted",
        Event.CONTRADICT: "new evidence contradicts the recorded result; needs review",
        Event.RESTORE: "job table restored; the outcome is looked up at the provider",
        Event.NOTE: "note added",
        Event.RESOLVE_FINISHED: "marked as done by an operator",
        Event.RESOLVE_FAILED: "marked as failed by an operator",
        Event.REOPEN: "returned to ready by an operator",
        Event.CLOSE_AND_FAIL: "marked as failed by an operator; a worker closes what is open first",
    }
)
