"""A job's timeline, from its evidence and the times on its row."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from oncely.core.job_row import (
    CLAIMS,
    NO_PROVIDER,
    EventMark,
    EventRecord,
    EvidenceEntry,
    JobRow,
    insert_claim,
    is_operator,
    operator_name,
)
from oncely.core.lifecycle import Event


def timeline(job: JobRow) -> tuple[EvidenceEntry, ...]:
    """The job's history, oldest first, with its last claim."""
    claim = job.unrecorded_claim
    entries = job.evidence if claim is None else insert_claim(job.evidence, claim)
    # The sort is stable, so entries of the same time keep their order.
    return tuple(sorted(entries, key=lambda entry: entry.at))


class TimelineKind(StrEnum):
    """The cause of an entry. The page marks each kind."""

    RUN = "run"  # a worker began a run
    OPERATOR = "operator"
    REJECT = "reject"  # a message of this job was rejected
    PROVIDER = "provider"  # the provider reported an event
    EVENT = "event"


def entry_kind(entry: EvidenceEntry) -> TimelineKind:
    """The kind of an entry."""
    if is_operator(entry.actor):
        return TimelineKind.OPERATOR
    return TimelineKind.RUN if entry.event in CLAIMS else TimelineKind.EVENT


def describe_entry(entry: EvidenceEntry, *, done_verb: str) -> str:
    """What happened: "marked as sent by ada"."""
    match entry.event:
        case Event.CONFIRM if entry.reason.endswith(NO_PROVIDER):
            return "finished by the word of its business rows"
        case Event.RESOLVE_FINISHED:
            return f"marked as {done_verb} by {operator_name(entry.actor)}"
        case Event.RESOLVE_FAILED:
            return f"marked as failed by {operator_name(entry.actor)}"
        case event:
            return describe_event(event)


def describe_record(record: EventRecord) -> str:
    """A provider event, and what it means: "event Send (proof)"."""
    match record.mark:
        case EventMark.HINT:
            return f"event {record.name} brought the lookup forward (hint)"
        case EventMark.PROOF:
            return f"event {record.name}: it was done (proof)"
        case EventMark.REPORT:
            code = f" {record.code}" if record.code else ""
            return f"event {record.name}{code} (reported later)"
        case unreachable:
            assert_never(unreachable)


def later_reports(job: JobRow) -> str:
    """What the provider reported after the effect: "Bounce Permanent, Complaint"."""
    reports = (one for one in job.provider_events if one.mark is EventMark.REPORT)
    return ", ".join(" ".join(filter(None, (one.name, one.code))) for one in reports)


def describe_event(event: str) -> str:
    """What an event means. An event of a newer version is shown by its name."""
    return _DESCRIPTIONS.get(event, event)


_DESCRIPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Event.ENQUEUE: "enqueued",
        Event.REQUEST: "an operator asked to send it; a second operator must confirm",
        Event.RESEND: "message resent",
        Event.PARK: "parked; nothing is sent until it can run",
        Event.RESCHEDULE: "its run time was changed",
        Event.REFUSE: "a message was refused; nothing was changed",
        Event.CLAIM: "claimed by a worker",
        Event.CLAIM_REVIEW: "claimed by a worker; nothing had been sent",
        Event.CHECKPOINT: "progress saved",
        Event.CONFIRM: "confirmed by the provider",
        Event.DECLINE: "declined by the provider",
        Event.RELEASE: "nothing was done; waiting for a retry",
        Event.MARK_UNKNOWN: "outcome unknown",
        Event.RECHECK: "checked; outcome still unknown",
        Event.REQUEUE: "certainly not done; ready for a retry",
        Event.ESCALATE: "needs review: the outcome could not be determined automatically",
        Event.ALERT: "operators alerted",
        Event.CONTRADICT: "new evidence contradicts the recorded result; needs review",
        Event.RESTORE: "job table restored; the outcome is unknown",
        Event.NOTE: "note added",
        Event.ERASE: "personal data erased, or to be erased when the job ends",
        Event.RESOLVE_FINISHED: "marked as done by an operator",
        Event.RESOLVE_FAILED: "marked as failed by an operator",
        Event.REOPEN: "returned to ready by an operator",
        Event.CLOSE_AND_FAIL: "marked as failed by an operator; a worker closes what is open first",
        Event.CANCEL: "cancelled by an operator",
        Event.CLOSE_AND_CANCEL: "cancelled by an operator; a worker closes what is open first",
        Event.CLOSE: "closed at the provider, and cancelled",
    }
)
