"""Checks that jobs are resolved: the reconciler's sweeps, reviews, pauses, the oldest open job."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from oncely.cli.health_checks.deployed import DeployedStack
from oncely.core.job_row import operator_name
from oncely.plugins.health import Finding, failed, passed, warned

_RUNBOOK: Final = "see docs/operations.md#reconciler-failing"
# The same as the alarm on the oldest unresolved job.
_MAX_UNRESOLVED_AGE: Final = timedelta(minutes=30)


def check_reconciler(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the reconciler's schedule and its last executions."""
    yield from _check_schedule(deployed)
    arn = deployed.connection.outputs.get("ReconcilerArn")
    if arn is None:
        return
    listed = deployed.connection.client("stepfunctions").list_executions(
        stateMachineArn=arn, maxResults=10
    )["executions"]
    check = "reconciler"
    ended = [one["status"] for one in listed if one["status"] != "RUNNING"]
    unsuccessful = [status for status in ended if status != "SUCCEEDED"]
    if unsuccessful and unsuccessful == ended:
        yield failed(check, f"the last {len(unsuccessful)} sweeps failed", _RUNBOOK)
    elif unsuccessful:
        yield warned(check, f"{len(unsuccessful)} of the last {len(ended)} sweeps failed", _RUNBOOK)
    else:
        # There may be none: no sweep starts while nothing is due.
        yield passed(check, f"no failed sweeps among the last {len(ended)}")


def _check_schedule(deployed: DeployedStack) -> Iterator[Finding]:
    client = deployed.connection.client("scheduler")
    check = "reconciler schedule"
    names = deployed.physical_ids("AWS::Scheduler::Schedule")
    if not names:
        yield failed(check, "the stack has no schedule", "deploy the stack again")
    for name in names:
        if "PaymentAudit" in name:  # does not resolve jobs
            continue
        # A physical id may be "group|name".
        group, _, own = name.rpartition("|")
        found = client.get_schedule(Name=own, **({"GroupName": group} if group else {}))
        if found["State"] == "ENABLED":
            yield passed(check, f"enabled: {found['ScheduleExpression']}")
        else:
            yield failed(check, "disabled: unknown jobs are not resolved", "enable the schedule")


def check_jobs(deployed: DeployedStack) -> Iterator[Finding]:
    """Check for jobs that need review and for the oldest unresolved job."""
    counts = deployed.connection.app.job_queries.counts()
    here = deployed.connection.cli_options
    or_more = "+" if "needs_review" in counts.truncated else ""
    if waiting := counts.needs_review:
        jobs = "1 job needs" if waiting == 1 and not or_more else f"{waiting:,}{or_more} jobs need"
        yield warned("needs review", f"{jobs} review", f"oncely list --status needs_review{here}")
    else:
        yield passed("needs review", "no jobs need review")
    oldest, check = counts.oldest_unresolved_at, "oldest unresolved job"
    if oldest is None:
        yield passed(check, "none")
    elif deployed.now - oldest > _MAX_UNRESOLVED_AGE:
        yield warned(
            check,
            f"unresolved for {format_age(oldest, now=deployed.now)}",
            f"oncely list --status in_progress{here}, then oncely reconcile KEY{here}",
        )
    else:
        yield passed(check, f"unresolved for {format_age(oldest, now=deployed.now)}")


def format_age(at: datetime, *, now: datetime) -> str:
    """Return the time since then, in the largest unit that fits."""
    seconds = int((now - at).total_seconds())
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{max(seconds, 0)} s"


def check_gates(deployed: DeployedStack) -> Iterator[Finding]:
    """Check for pauses and open circuits."""
    snapshot = deployed.connection.app.pause_switch.snapshot()
    here = deployed.connection.cli_options
    paused = [(one, entry) for one in snapshot.pauses.values() if (entry := one.current)]
    for one, entry in paused:
        age = format_age(entry.at, now=deployed.now)
        yield warned(
            "paused",
            f"{one.target} for {age} by {operator_name(entry.actor)}: {entry.reason}",
            f"oncely resume {one.target}{here}",
        )
    if not paused:
        yield passed("paused", "nothing")
    opened = {name: at for name, one in snapshot.gates.items() if (at := one.opened_at)}
    for name, at in sorted(opened.items()):
        yield warned(
            "circuit",
            f"{name} has not responded for {format_age(at, now=deployed.now)}",
            "no action needed: its jobs wait, and continue when it responds",
        )
    if not opened:
        yield passed("circuit", "every provider responds")
