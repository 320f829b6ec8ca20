"""What people are told: what is known, what is not, and which command to run next."""

from collections.abc import Iterable

from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.review import known_facts, open_question
from oncely.domain.text import redacted_line
from oncely.ports import Alert


def review_alert(job: Job, *, stack: str) -> Alert:
    """A job that no rule may decide about."""
    lines = [
        f"Job: {job.job_key}",
        f"Status: {job.status.label} ({job.status})",
        f"Why: {redacted_line(job.last_error or 'no reason was recorded')}",
        *(f"Known: {fact}" for fact in known_facts(job)),
        f"Not known: {open_question(job)}",
        f"Next: {show_command(job.job_key, stack)}",
        f"Then: {lookup_command(job.job_key, stack)}",
    ]
    return Alert(
        subject=f"Oncely: {job.job_key} {job.status.label}",
        text="\n".join(lines),
        job_key=job.job_key,
    )


def conflict_alert(key: JobKey, reason: str, *, stack: str) -> Alert:
    """A message for a job that stands for something else."""
    lines = [
        f"Job: {key}",
        f"Why: {redacted_line(reason)}",
        "Known: the job itself is untouched; the message is among the rejects, with this reason",
        "Not known: which of the two its producer meant",
        f"Next: {show_command(key, stack)}",
    ]
    return Alert(
        subject=f"Oncely: conflicting message for {key}", text="\n".join(lines), job_key=key
    )


def orphaned_outcome_alert(key: JobKey, outcome: str, *, stack: str) -> Alert:
    """An answer of the provider's for a job whose row was deleted meanwhile."""
    lines = [
        f"Job: {key}",
        f"Why: {redacted_line(outcome)}",
        "Known: the provider gave this answer, and no row was made for it",
        "Not known: who deleted the row, and what our own rows should say",
        f"Next: {show_command(key, stack)}",
    ]
    return Alert(subject=f"Oncely: {key} has no row", text="\n".join(lines), job_key=key)


def dead_letter_alert(dead_letters: Iterable[tuple[str, str]], *, stack: str) -> Alert:
    """Messages that workers gave up on, each by its job's key or its own id, with what is so."""
    lines = [f"{name}: {redacted_line(reason)}" for name, reason in dead_letters]
    text = [
        *lines,
        "Known: no job is lost; the rows carry them on, and what is ready is sent again",
        "Not known: why the workers failed or were killed",
        "Next: look for errors and timeouts in the log of that queue's worker",
        f"Then: oncely redrive{_stack_option(stack)}",
    ]
    count = "a dead letter" if len(lines) == 1 else f"{len(lines)} dead letters"
    return Alert(subject=f"Oncely: {count}", text="\n".join(text))


def show_command(key: JobKey, stack: str) -> str:
    """The command that shows a job; its key holds no character that a shell would take."""
    return f"oncely show '{key}'{_stack_option(stack)}"


def lookup_command(key: JobKey, stack: str) -> str:
    """The command that puts the provider's answer beside ours, and changes nothing else."""
    return f"oncely repair '{key}' lookup --reason 'an alert'{_stack_option(stack)}"


def _stack_option(stack: str) -> str:
    return f" --stack {stack}" if stack else ""
