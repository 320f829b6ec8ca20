"""Alert texts: impact first, then what is known and unknown, and the command to run next."""

from collections.abc import Iterable

from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.repairs import Repair
from oncely.domain.review import impact, known_facts, open_question
from oncely.domain.text import redacted_line
from oncely.ports import Alert


def review_alert(job: Job, *, stack: str) -> Alert:
    """The alert for a job that needs review."""
    lines = [
        impact(job),
        f"Job: {job.job_key}",
        f"Status: {job.status.label} ({job.status})",
        f"Reason: {redacted_line(job.last_error or 'no reason was recorded')}",
        *(f"Known: {fact}" for fact in known_facts(job)),
        f"Unknown: {open_question(job)}",
        f"Next: {show_command(job.job_key, stack)}",
        f"Then: {lookup_command(job.job_key, stack)}",
    ]
    return Alert(
        subject=f"Oncely: {job.job_key} {job.status.label}",
        text="\n".join(lines),
        job_key=job.job_key,
    )


def conflict_alert(key: JobKey, reason: str, *, stack: str) -> Alert:
    """The alert for a message whose key belongs to a job with other business values."""
    lines = [
        "A message was rejected and nothing was sent for it. The existing job is unchanged.",
        f"Job: {key}",
        f"Reason: {redacted_line(reason)}",
        "Known: the message is in the rejects queue, with this reason",
        "Unknown: which of the two messages is correct",
        f"Next: {show_command(key, stack)}",
    ]
    return Alert(
        subject=f"Oncely: conflicting message for {key}", text="\n".join(lines), job_key=key
    )


def orphaned_outcome_alert(key: JobKey, outcome: str, *, stack: str) -> Alert:
    """The alert for an outcome of a job whose row was deleted."""
    lines = [
        "The provider reported an outcome that could not be recorded: the job's row was deleted.",
        f"Job: {key}",
        f"Outcome: {redacted_line(outcome)}",
        "Known: no new row was created, and no business row was changed",
        "Unknown: who deleted the row, and what the business rows should say",
        f"Next: {show_command(key, stack)}",
    ]
    return Alert(subject=f"Oncely: {key} has no row", text="\n".join(lines), job_key=key)


def dead_letter_alert(dead_letters: Iterable[tuple[str, str]], *, stack: str) -> Alert:
    """The alert for dead letters, each with its job key or message id and what happens to it."""
    lines = [f"{name}: {redacted_line(reason)}" for name, reason in dead_letters]
    text = [
        "No jobs are lost. Each is tracked in its row, and ready jobs are resent automatically.",
        *lines,
        "Known: the workers failed or timed out on these messages",
        "Unknown: why the workers failed",
        "Next: look for errors and timeouts in the log of that queue's worker",
        f"Then: oncely redrive{_stack_option(stack)}",
    ]
    count = "1 dead letter" if len(lines) == 1 else f"{len(lines)} dead letters"
    return Alert(subject=f"Oncely: {count}", text="\n".join(text))


def show_command(key: JobKey, stack: str) -> str:
    """The command that shows a job. A job key needs no shell escapes inside quotes."""
    return f"oncely show '{key}'{_stack_option(stack)}"


def lookup_command(key: JobKey, stack: str) -> str:
    """The command that looks up the outcome at the provider and notes it."""
    return f"oncely repair '{key}' {Repair.LOOK_UP} --reason 'an alert'{_stack_option(stack)}"


def _stack_option(stack: str) -> str:
    return f" --stack {stack}" if stack else ""
