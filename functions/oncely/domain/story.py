"""A job's history as lines that people read, from its evidence and the times on its row."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from oncely.domain.jobs import Evidence, Job
from oncely.domain.lifecycle import ABSENT, Event, Status


def story(job: Job) -> tuple[Evidence, ...]:
    """The job's history, the oldest first."""
    # A stable sort: what happened in the same moment stays in its order.
    return tuple(sorted([*_claims(job), *job.evidence], key=lambda line: line.at))


def words_of(event: str) -> str:
    """What an event means; one of a newer version speaks for itself."""
    return _WORDS.get(event, event)


def _claims(job: Job) -> list[Evidence]:
    """A claim leaves no entry, since it must cost one write; the row's own times tell of two."""
    if job.claimed_at is None:
        return []
    began = not job.evidence or job.evidence[0].event is not Event.ENQUEUE
    first = [_claim(job.created_at, ABSENT, 1)] if began and job.created_at < job.claimed_at else []
    by_claim = began and not first
    return [*first, _claim(job.claimed_at, ABSENT if by_claim else Status.READY, job.fence)]


def _claim(at: datetime, old: Status | None, number: int) -> Evidence:
    return Evidence(
        at=at,
        event=Event.CLAIM,
        old=old,
        new=Status.STARTED,
        reason=f"run {number}",
        actor="worker",
    )


_WORDS: Final[Mapping[str, str]] = MappingProxyType(
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
        Event.CONTRADICT: "something speaks against its end; a person must look",
        Event.RESTORE: "the job table was restored; its provider is asked",
        Event.NOTE: "noted",
        Event.RULE_FINISHED: "a person marked it as done",
        Event.RULE_FAILED: "a person marked it as failed",
        Event.RULE_READY: "a person returned it to ready",
        Event.RULE_CLOSE: "a person wants it failed; a worker closes what is open first",
    }
)
