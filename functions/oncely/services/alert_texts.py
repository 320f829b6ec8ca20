"""What people are told: what is known, what is not, and which command to run next."""

from collections.abc import Iterable

from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.review import known, not_known
from oncely.domain.text import safe_line
from oncely.ports import Alert


def review(job: Job, *, stack: str) -> Alert:
    """A job that no rule may decide about."""
    lines = [
        f"Job: {job.job_key}",
        f"Status: {job.status.in_words} ({job.status})",
        f"Why: {safe_line(job.last_error or 'no reason was recorded')}",
        *(f"Known: {fact}" for fact in known(job)),
        f"Not known: {not_known(job)}",
        f"Next: {show(job.job_key, stack)}",
        f"Then: {ask(job.job_key, stack)}",
    ]
    return Alert(
        subject=f"Oncely: {job.job_key} {job.status.in_words}",
        text="\n".join(lines),
        job_key=job.job_key,
    )


def conflict(key: JobKey, reason: str, *, stack: str) -> Alert:
    """A message for a job that stands for something else."""
    lines = [
        f"Job: {key}",
        f"Why: {safe_line(reason)}",
        "Known: the job itself is untouched; the message is among the rejects, with this reason",
        "Not known: which of the two its producer meant",
        f"Next: {show(key, stack)}",
    ]
    return Alert(
        subject=f"Oncely: conflicting message for {key}", text="\n".join(lines), job_key=key
    )


def gone(key: JobKey, answer: str, *, stack: str) -> Alert:
    """An answer of the provider's for a job whose row was deleted meanwhile."""
    lines = [
        f"Job: {key}",
        f"Why: {safe_line(answer)}",
        "Known: the provider gave this answer, and no row was made for it",
        "Not known: who deleted the row, and what our own rows should say",
        f"Next: {show(key, stack)}",
    ]
    return Alert(subject=f"Oncely: {key} has no row", text="\n".join(lines), job_key=key)


def dead_letters(letters: Iterable[tuple[str, str]], *, stack: str) -> Alert:
    """Messages that workers gave up on, each by its job's key or its own id, with what is so."""
    lines = [f"{name}: {safe_line(reason)}" for name, reason in letters]
    text = [
        *lines,
        "Known: no job is lost; the rows carry them on, and what is ready is sent again",
        "Not known: why the workers failed or were killed",
        "Next: look for errors and timeouts in the log of that queue's worker",
        f"Then: oncely redrive{_where(stack)}",
    ]
    count = "a dead letter" if len(lines) == 1 else f"{len(lines)} dead letters"
    return Alert(subject=f"Oncely: {count}", text="\n".join(text))


def show(key: JobKey, stack: str) -> str:
    """The command that shows a job; its key holds no character that a shell would take."""
    return f"oncely show '{key}'{_where(stack)}"


def ask(key: JobKey, stack: str) -> str:
    """The command that puts the provider's answer beside ours, and changes nothing else."""
    return f"oncely repair '{key}' ask --reason 'an alert'{_where(stack)}"


def _where(stack: str) -> str:
    return f" --stack {stack}" if stack else ""
