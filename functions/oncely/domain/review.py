"""What is known about a job that needs a person, and what is not, in plain words."""

import json

from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event
from oncely.domain.text import redacted_line


def known_facts(job: Job) -> tuple[str, ...]:
    """What the row proves."""
    facts = [
        f"workers claimed it {job.fence} times, and {job.attempts} of them may have called",
        f"the reference at the provider: {job.provider_ref or 'none was saved'}",
    ]
    if job.result:
        recorded = redacted_line(json.dumps(dict(job.result)))
        facts.append(f"what is recorded of its outcome: {recorded}")
    if job.customer_id:
        facts.append(f"the customer: {job.customer_id}")
    return tuple(facts)


def open_question(job: Job) -> str:
    """The question that a person has to answer."""
    if _was_contradicted(job):
        return "which is true: the end that was recorded, or the answer that came after it"
    if job.result:
        return "whether what was done outside should stand, and what our own rows should say"
    if job.provider_ref:
        return f"what became of {job.provider_ref} at the provider"
    if job.was_claimed:
        return "whether anything happened outside: no answer of the provider is recorded"
    return "why no worker takes it; no worker ever did, so nothing happened outside"


def _was_contradicted(job: Job) -> bool:
    """Whether the last move took a recorded end back."""
    moves = [entry.event for entry in job.evidence if entry.from_status != entry.to_status]
    return moves[-1:] == [Event.CONTRADICT]
