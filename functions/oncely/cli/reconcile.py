"""`oncely reconcile`: runs a reconciler sweep now and prints the result for each job."""

import json as json_text
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, ExitCode
from oncely.cli.jobs import job_not_found
from oncely.cli.options import (
    DryRunOption,
    JobTypeOption,
    JsonOption,
    time_option,
    with_stack,
)
from oncely.cli.stack_connection import StackConnection
from oncely.core.text import format_time

_RUNNING: Final = frozenset({"RUNNING", "PENDING_REDRIVE"})
_POLL_SECONDS: Final = 0.5


@with_stack
def reconcile(
    stack: StackConnection,
    key: Annotated[
        str | None, typer.Argument(help="Job key, due or not (default: all due jobs).")
    ] = None,
    *,
    job_type: JobTypeOption = None,
    since: Annotated[
        datetime | None,
        time_option(help="Only jobs due after this time: a duration (24h) or a date."),
    ] = None,
    until: Annotated[datetime | None, time_option(help="Only jobs due before this time.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=200, help="Maximum number of jobs to check.")
    ] = 200,
    dry_run: DryRunOption = False,
    wait: Annotated[bool, typer.Option(help="Wait for the sweep to end.")] = True,
    json: JsonOption = False,
) -> None:
    """Run a reconciler sweep now.

    Looks up outcomes at the providers. Never executes effects.

    Examples:
    - `oncely reconcile --dry-run`
    - `oncely reconcile payment.charge:order_18452`
    - `oncely reconcile --type payment.charge --since 24h`
    """
    sweep: dict[str, object] = {"limit": limit, "dry_run": dry_run}
    times = {"from": since and format_time(since), "to": until and format_time(until)}
    given = {"job_type": job_type, "key": key, **times}
    sweep |= {name: value for name, value in given.items() if value is not None}
    if (machine := stack.outputs.get("ReconcilerArn")) is None:
        raise CommandError(
            f"Stack {stack.name} has no output ReconcilerArn. Deploy it again.",
            ExitCode.UNREACHABLE,
        )
    states = stack.client("stepfunctions")
    started = states.start_execution(stateMachineArn=machine, input=json_text.dumps(sweep))
    arn = started["executionArn"]
    if not wait:
        console.print_json({"execution": arn}) if json else console.print_line("started:", arn)
        return
    from oncely.reconcile.reconciler import ROW_MISSING

    ended = _wait(states, arn)
    done = _read(ended)
    if json:
        console.print_json({"execution": arn, "status": ended["status"], **done})
    else:
        _print_sweep(done, dry_run=dry_run)
    _raise_if_unresolved(stack, ended, done)
    if key is not None and ROW_MISSING in (done.get("counts") or {}):
        raise job_not_found(key)


def _wait(states: Any, arn: str) -> Mapping[str, Any]:  # noqa: ANN401  # boto3's client
    # No limit here: the state machine times out after 30 minutes.
    with console.stderr_console().status("sweeping…"):
        while True:
            found: Mapping[str, Any] = states.describe_execution(executionArn=arn)
            if found["status"] not in _RUNNING:
                return found
            time.sleep(_POLL_SECONDS)


def _read(ended: Mapping[str, Any]) -> dict[str, Any]:
    for text in (ended.get("output"), ended.get("cause")):
        try:
            found = json_text.loads(text or "")
        except ValueError:
            continue
        if isinstance(found, dict):
            # A failed sweep reports its counts alone.
            return found if "counts" in found else {"counts": found, "jobs": []}
    return {"counts": {}, "jobs": []}


def _print_sweep(done: Mapping[str, Any], *, dry_run: bool) -> None:
    listed, counts = done.get("jobs"), done.get("counts") or {}
    if jobs := [one for one in listed or () if isinstance(one, dict)]:
        console.print_table(
            ("job", "was", "would become" if dry_run else "is now", "reason"),
            ((one.get("key"), one.get("old"), one.get("new"), one.get("reason")) for one in jobs),
        )
    if busy := done.get("busy_shards"):
        console.print_line(f"Skipped {busy} shards: another sweep is processing them.")
    if not counts:
        if not busy:
            console.print_line("No jobs are due.")
        return
    if more := done.get("not_listed"):
        console.print_line(f"{more} more jobs are not listed.")
    summary = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    console.print_line("Dry run, nothing was changed:" if dry_run else "Checked:", summary)


def _raise_if_unresolved(
    stack: StackConnection, ended: Mapping[str, Any], done: Mapping[str, Any]
) -> None:
    from oncely.reconcile.resolve_group import LISTED_FIRST

    if ended["status"] != "SUCCEEDED":
        raise CommandError(
            f"The sweep did not succeed ({ended['status']} {ended.get('error', '')}). "
            f"Run `oncely doctor{stack.cli_options}` and see "
            "docs/operations.md#reconciler-failing.",
            ExitCode.ACTION_NEEDED,
        )
    counts = done.get("counts") or {}
    if LISTED_FIRST & counts.keys():
        raise CommandError(
            "Some jobs need action. List them with "
            f"`oncely list --status needs_review{stack.cli_options}`.",
            ExitCode.ACTION_NEEDED,
        )
