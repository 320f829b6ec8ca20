"""A former run of the same key, whose row has expired: what its end means for this one."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from oncely.domain.answers import Answer, Done, NotSent, Odd, Refused
from oncely.domain.decide import decide
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Status
from oncely.domain.moves import Decision
from oncely.domain.profiles import Safety, Terms

# What a claim reads from our own rows, and the first one that counts keeps.
_VALUES: Final = ("fingerprint", "customer_id", "amount", "currency")


def may_have_run(job: Job, terms: Terms) -> bool:
    """Whether the archive is to be asked; a natural effect may run again, so it need not be."""
    return not job.beyond_archive and terms.safety is not Safety.NATURAL


def takes_the_place_of(job: Job, kept: Job) -> bool:
    """Whether an end is newer than the one that the archive holds.

    Versions count the writes of one row; the row that a replay makes after an expiry is newer.
    """
    return (job.created_at, job.version) > (kept.created_at, kept.version)


def restored(job: Job, former: Job, terms: Terms, *, now: datetime) -> Decision:
    """The end of a former run of the same key, whose row has expired, as the end of this one."""
    decision = decide(job, terms, _answer_of(former), now=now)
    # What it was for is what it was for then, whatever the rows say today.
    then = {
        name: getattr(former, name) for name in (*_VALUES, "deployment", "message", "provider_ref")
    }
    return replace(decision, changes={**decision.changes, **then})


def not_looked_up(
    job: Job, terms: Terms, answer: NotSent, *, now: datetime, spread: float
) -> Decision:
    """The archive could not be asked whether a key ran before: it is asked by the next claim."""
    released = decide(job, terms, answer, now=now, spread=spread)
    if job.fence > 1:
        return released
    # The values of this claim bind nobody: a former run, if there was one, had its own.
    return replace(released, changes={**released.changes, **dict.fromkeys(_VALUES)})


def _answer_of(former: Job) -> Answer:
    reason = f"answered from the archive: it ended {former.status} at {former.updated_at}"
    if former.status is Status.FINISHED:
        return Done(reason, ref=former.provider_ref, result=former.result or {})
    if former.status is Status.FAILED:
        result = former.result or {}
        return Refused(reason, code=str(result.get("code", "failed")), result=result)
    return Odd(f"the archive holds it as {former.status}, which is no end", former.provider_ref)
