"""Alert texts: impact first, then what is known and unknown, and the command to run next."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from oncely.alerts.budget import (
    Alert,
    AlertCause,
    AlertKind,
    CountedAlert,
    kind_of_key,
    review_kind,
)
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair
from oncely.core.text import format_duration, format_minute, format_time, support_line
from oncely.plugins.events import EffectChange

# SNS accepts 256 kB, and nobody reads more.
MAX_SUMMARY_LINES: Final = 20


def review_alert(job: JobRow, *, stack: str, can_look_up: bool = True) -> Alert:
    """The alert for a job that needs review. `can_look_up` if the provider can be asked."""
    lines = [
        _impact(job),
        f"Job: {job.job_key}",
        f"Status: {job.status.label} ({job.status})",
        f"Reason: {support_line(job.last_error or 'no reason was recorded')}",
        *(f"Known: {fact}" for fact in known_facts(job)),
        f"Unknown: {open_question(job)}",
        f"Next: {show_command(job.job_key, stack)}",
        *([f"Then: {lookup_command(job.job_key, stack)}"] if can_look_up else []),
    ]
    return Alert(
        subject=f"Oncely: {job.job_key} {job.status.label}",
        text="\n".join(lines),
        kind=review_kind(job),
        names=(job.job_key,),
    )


def conflict_alert(key: JobKey, reason: str, *, stack: str) -> Alert:
    """The alert for a message whose key belongs to a job with other business values."""
    return _job_alert(
        key,
        "A message was rejected and nothing was sent for it. The existing job is unchanged.",
        f"Reason: {support_line(reason)}",
        "Known: the message is in the rejects queue, with this reason",
        "Unknown: which of the two messages is correct",
        subject=f"conflicting message for {key}",
        kind=kind_of_key(AlertCause.CONFLICT, key, reason),
        stack=stack,
    )


def orphaned_outcome_alert(key: JobKey, outcome: str, *, stack: str) -> Alert:
    """The alert for an outcome of a job whose row was deleted."""
    return _job_alert(
        key,
        "The provider reported an outcome that could not be recorded: the job's row was deleted.",
        f"Outcome: {support_line(outcome)}",
        "Known: no new row was created, and no business row was changed",
        "Unknown: who deleted the row, and what the business rows should say",
        subject=f"{key} has no row",
        kind=kind_of_key(AlertCause.ORPHANED_OUTCOME, key),
        stack=stack,
    )


def forged_row_alert(key: JobKey, status: str, *, stack: str) -> Alert:
    """The alert for a row that none of our functions wrote, and that a message replaces."""
    reason = f"a forged row was {status}"
    return _job_alert(
        key,
        "Somebody tried to block this job. Nothing was sent yet, and a valid message runs it.",
        f"Reason: {reason}",
        "Known: no worker had claimed the row, and Oncely had not written it. Nothing of it stays",
        "Unknown: who inserted it. Every producer of this queue can",
        subject=f"forged row of {key}",
        kind=kind_of_key(AlertCause.FORGED_ROW, key, reason),
        stack=stack,
    )


def ignored_run_at_alert(job: JobRow, schedule_limit: timedelta, *, stack: str) -> Alert:
    """The alert for a job whose run time is further ahead than its contract honors."""
    honored = f"up to {format_duration(schedule_limit)} ahead" if schedule_limit else "no time"
    run_at = format_minute(job.run_at or job.created_at)
    return _job_alert(
        job.job_key,
        "The job was not held back: it runs now, because its run time is not honored.",
        f"Known: its row says {run_at}; {job.job_type} honors {honored}, and no message set it",
        "Unknown: which producer inserted the row, and whether the job should have waited",
        subject=f"the run time of {job.job_key} is not honored",
        kind=kind_of_key(AlertCause.IGNORED_RUN_AT, job.job_key),
        stack=stack,
    )


def _job_alert(
    key: JobKey, impact: str, *lines: str, subject: str, kind: AlertKind, stack: str
) -> Alert:
    """An alert that is sent once for a job: nothing else keeps it from being repeated."""
    text = (impact, f"Job: {key}", *lines, f"Next: {show_command(key, stack)}")
    return Alert(
        subject=f"Oncely: {subject}", text="\n".join(text), kind=kind, names=(key,), once=True
    )


def dead_letter_alert(dead_letters: Iterable[tuple[str, str]], *, stack: str) -> Alert:
    """The alert for dead letters, each with its job key or message id and what happens to it."""
    letters = tuple(dead_letters)
    lines = [f"{name}: {support_line(reason)}" for name, reason in letters]
    text = [
        "No jobs are lost. Each is tracked in its row, and ready jobs are resent automatically.",
        *lines,
        "Known: the workers failed or timed out on these messages",
        "Unknown: why the workers failed",
        "Next: look for errors and timeouts in the log of that queue's worker",
        f"Then: oncely redrive{_stack_option(stack)}",
    ]
    count = "1 dead letter" if len(lines) == 1 else f"{len(lines)} dead letters"
    return Alert(
        subject=f"Oncely: {count}",
        text="\n".join(text),
        kind=AlertKind(cause=AlertCause.DEAD_LETTER),
        names=tuple(name for name, _ in letters),
    )


def later_change_alert(job: JobRow, change: EffectChange, *, stack: str) -> Alert:
    """The alert for an effect that changed after its job had ended."""
    deadline = change.respond_by and format_minute(change.respond_by)
    lines = [
        "The provider reports a change after this job ended. The customer may get the money back.",
        *([f"Deadline: respond to the provider by {deadline}"] if deadline else []),
        f"Job: {job.job_key}",
        f"Reported: {support_line(change.summary)}",
        "Known: Oncely asked the provider, and changed neither the job's status nor business rows",
        "Unknown: whether your business rows should show it",
        f"Next: {show_command(job.job_key, stack)}",
    ]
    return Alert(
        subject=f"Oncely: {change.kind}: {job.job_key}",
        text="\n".join(lines),
        kind=kind_of_key(AlertCause.LATER_CHANGE, job.job_key, change.kind),
        names=(job.job_key,),
    )


def audit_alert(
    counts: Mapping[str, int], *, known: int, since: datetime, until: datetime, stack: str
) -> Alert:
    """The alert for new differences of payments and jobs, by kind. `known` are in an alert."""
    period = f"{format_minute(since)} to {format_minute(until)}"
    command = f"oncely audit payments --from {format_time(since)} --to {format_time(until)}"
    number = sum(counts.values())
    what = "1 payment differs" if number == 1 else f"{number} payments differ"
    lines = [
        "Customers may have been charged wrongly: payments at the provider differ from our jobs.",
        f"Period: {period}",
        *(f"Found: {number} {label}" for label, number in counts.items()),
        *([f"Known: {known} more of this period, from an earlier alert"] if known else []),
        "Known: the audit changed nothing, here or at the provider",
        f"Next: {command}{_stack_option(stack)}",
    ]
    # Once a day, so it needs no budget.
    return Alert(subject=f"Oncely: {what} from our jobs", text="\n".join(lines))


def summary_alert(reviews: Sequence[JobRow], *, stack: str) -> Alert:
    """One alert for all jobs that need review and have no alert of their own, by their causes."""
    kinds: dict[AlertKind, list[JobRow]] = defaultdict(list)
    for review in reviews:
        kinds[review_kind(review)].append(review)
    causes = [
        f"{kind.job_type}: {len(rows)}, for example {rows[0].job_key}: "
        f"{support_line(rows[0].last_error or 'no reason was recorded')}"
        for kind, rows in sorted(kinds.items(), key=lambda one: -len(one[1]))
    ]
    count = "1 job needs" if len(reviews) == 1 else f"{len(reviews)} jobs need"
    since = format_time(min(review.updated_at for review in reviews))
    listed = f"oncely list --status {Status.NEEDS_REVIEW} --since {since}"
    lines = [
        "Nothing more is sent for these jobs until an operator decides.",
        f"Count: {count} review, without an alert of their own",
        *causes[:MAX_SUMMARY_LINES],
        *([f"and {more} other causes"] if (more := len(causes) - MAX_SUMMARY_LINES) > 0 else []),
        f"Next: {listed} --limit {max(25, 2 * len(reviews))}{_stack_option(stack)}",
    ]
    return Alert(
        subject=f"Oncely: {count} review",
        text="\n".join(lines),
        kind=AlertKind(cause=AlertCause.SUMMARY),
        names=tuple(review.job_key for review in reviews),
    )


def with_budget(alert: Alert, kind: AlertKind, counted: CountedAlert, *, limit: int) -> Alert:
    """Add what the budget does to the next alerts of this kind, and what it did to the last."""
    until = format_minute(counted.until)
    match kind.cause:
        case AlertCause.REVIEW:
            unsent, last = 0, f"Limit: until {until}, summaries report more jobs of this kind"
        case AlertCause.SUMMARY:
            unsent, last = 0, f"Limit: the next summary is sent after {until}"
        case _:
            unsent = max(counted.counted_before - limit, 0)
            last = f"Limit: until {until}, more of this kind are counted and not sent"
    lines = [
        alert.text,
        *([f"Not sent: {unsent} earlier alerts of this kind"] if unsent else []),
        *([last] if counted.number == limit else []),
    ]
    return replace(alert, text="\n".join(lines))


def show_command(key: JobKey, stack: str) -> str:
    """The command that shows a job. A job key needs no shell escapes inside quotes."""
    return f"oncely show '{key}'{_stack_option(stack)}"


def lookup_command(key: JobKey, stack: str) -> str:
    """The command that looks up the outcome at the provider and records it."""
    return f"oncely repair '{key}' {Repair.LOOK_UP} --reason 'an alert'{_stack_option(stack)}"


def _impact(job: JobRow) -> str:
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


def _stack_option(stack: str) -> str:
    return f" --stack {stack}" if stack else ""
