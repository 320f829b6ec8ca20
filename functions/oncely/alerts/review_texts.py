"""What is known about a job that needs review, and what the operator has to find out."""

import json

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event
from oncely.core.text import support_line


def impact(job: JobRow) -> str:
    """Whether money or data is at risk, in one sentence."""
    if _was_contradicted(job):
        return "The recorded result may be wrong: later evidence contradicts it."
    if job.result:
        return "The provider and our business rows may disagree."
    if job.was_claimed:
        return "The effect may or may not have happened. It will not be retried automatically."
    return "Nothing was sent to the provider: no worker ever claimed this job."


def known_facts(job: JobRow) -> tuple[str, ...]:
    """What the row proves."""
    facts = [
        f"claimed {job.fence} times; {job.attempts} of these runs may have called the provider",
        f"provider reference: {job.provider_ref or 'none saved'}",
    ]
    if job.result:
        facts.append(f"recorded result: {support_line(json.dumps(dict(job.result)))}")
    if job.customer_id:
        facts.append(f"customer: {job.customer_id}")
    return tuple(facts)


def open_question(job: JobRow) -> str:
    """What the operator has to find out."""
    if _was_contradicted(job):
        return "whether the recorded result or the later evidence is correct"
    if job.result:
        return "whether the effect should stand, and what the business rows should say"
    if job.provider_ref:
        return f"the outcome of {job.provider_ref} at the provider"
    if job.was_claimed:
        return "whether the effect happened: no response of the provider is recorded"
    if job.awaits_second_operator:
        return "whether it should run: a second operator must confirm it with reopen"
    if job.awaits_message:
        return "which is right: the message or the business rows. A valid message runs the job"
    return "why no worker claims it"


def _was_contradicted(job: JobRow) -> bool:
    """Whether the last status change took back a recorded result."""
    changes = [entry.event for entry in job.evidence if entry.from_status != entry.to_status]
    return changes[-1:] == [Event.CONTRADICT]
