"""A job's history as lines that people read, from its evidence and the times on its row."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from oncely.domain.actors import in_words
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import ABSENT, Event, Status


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that happened."""

    at: datetime
    who: str
    event: Event
    old: Status | None
    new: Status
    reason: str
    count: int = 1
    last_at: datetime | None = None

    @property
    def words(self) -> str:
        """What the event means."""
        return _WORDS[self.event]


def story(job: Job) -> tuple[Line, ...]:
    """The job's history, the oldest first."""
    told = [
        Line(
            at=entry.at,
            who=in_words(entry.actor),
            event=entry.event,
            old=entry.old,
            new=entry.new,
            reason=entry.reason,
            count=entry.count,
            last_at=entry.last_at,
        )
        for entry in job.evidence
    ]
    # A stable sort: what happened in the same moment stays in its order.
    return tuple(sorted([*_claims(job), *told], key=lambda line: line.at))


def _claims(job: Job) -> list[Line]:
    """A claim leaves no entry, since it must cost one write; the row's own times tell of two."""
    if job.claimed_at is None:
        return []
    began = not job.evidence or job.evidence[0].event is not Event.ENQUEUE
    first = [_claim(job.created_at, ABSENT, 1)] if began and job.created_at < job.claimed_at else []
    by_claim = began and not first
    return [*first, _claim(job.claimed_at, ABSENT if by_claim else Status.READY, job.fence)]


def _claim(at: datetime, old: Status | None, number: int) -> Line:
    return Line(
        at=at,
        who="worker",
        event=Event.CLAIM,
        old=old,
        new=Status.STARTED,
        reason=f"run {number}",
    )


_WORDS: Final[Mapping[Event, str]] = MappingProxyType(
    {
        Event.ENQUEUE: "it was asked for",
        Event.RESEND: "its message was sent again",
        Event.DEFER: "its message was given up; it is tried again later",
        Event.CLAIM: "a worker took it",
        Event.KEEP: "something was saved on the way",
        Event.CONFIRM: "the provider said yes",
        Event.REFUSE: "the provider said no",
        Event.RELEASE: "nothing was done; it waits for its next try",
        Event.LOSE: "it is not known whether it was done",
        Event.WAIT: "asked, and not known yet",
        Event.RETURN: "it was certainly not done; it is tried again",
        Event.ESCALATE: "no rule may decide; a person must look",
        Event.TELL: "a person was told",
        Event.ARCHIVE: "its end was published and archived",
        Event.CONTRADICT: "something speaks against its end; a person must look",
        Event.NOTE: "noted",
        Event.RULE_FINISHED: "a person marked it as done",
        Event.RULE_FAILED: "a person marked it as failed",
        Event.RULE_READY: "a person returned it to ready",
    }
)
