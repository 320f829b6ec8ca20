"""`oncely reconcile`: run the reconciler now, and tell what it did for each job."""

import json as json_text
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from oncely.cli import console as screen
from oncely.cli.exits import CommandError, ExitCode
from oncely.cli.find import job_not_found
from oncely.cli.options import DryRunOption, JsonOption, with_stack
from oncely.cli.stack_connection import StackConnection
from oncely.cli.time_arguments import parse_time_argument
from oncely.domain.lifecycle import Status
from oncely.domain.text import format_time

_RUNNING: Final = frozenset({"RUNNING", "PENDING_REDRIVE"})
_POLL_SECONDS: Final = 0.5  # seconds


@with_stack
def reconcile(
    stack: StackConnection,
    key: Annotated[
        str | None, typer.Argument(help="One job, due or not (default: what is due).")
    ] = None,
    *,
    job_type: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Due since then: 24h (ago), or a date.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Due until then.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=200, help="Maximum number of jobs to check.")
    ] = 200,
    dry_run: DryRunOption = False,
    wait: Annotated[bool, typer.Option(help="Wait until it is done.")] = True,
    json: JsonOption = False,
) -> None:
    """Ask the providers now what became of jobs; it never acts by itself."""
    now = datetime.now(UTC)
    sweep: dict[str, object] = {"limit": limit, "dry_run": dry_run}
    given = {"job_type": job_type, "key": key, "from": since, "to": until}
    for name, value in given.items():
        if value is not None:
            is_time = name in {"from", "to"}
            sweep[name] = format_time(parse_time_argument(value, now=now)) if is_time else value
    machine = _state_machine_arn(stack)
    states = stack.client("stepfunctions")
    arn = states.start_execution(stateMachineArn=machine, input=json_text.dumps(sweep))[
        "executionArn"
    ]
    if not wait:
        screen.print_json({"execution": arn}) if json else screen.print_line("started:", arn)
        return
    from oncely.reconcile.reconciler import ROW_MISSING

    ended = _wait(states, arn)
    done = _read(ended)
    if json:
        screen.print_json({"execution": arn, "status": ended["status"], **done})
    else:
        _print_sweep(done, dry_run=dry_run)
    _raise_if_unresolved(stack, ended, done)
    if key is not None and ROW_MISSING in (done.get("counts") or {}):
        raise job_not_found(key)


def _state_machine_arn(stack: StackConnection) -> str:
    try:
        return stack.outputs["ReconcilerArn"]
    except KeyError:
        raise CommandError(
            f"The stack {stack.name} names no reconciler: deploy it again.", ExitCode.UNREACHABLE
        ) from None


def _wait(states: Any, arn: str) -> Mapping[str, Any]:  # noqa: ANN401  # boto3's client
    """Until it has ended; the state machine itself gives up after half an hour."""
    with screen.stderr_console().status("asking the providers…"):
        while True:
            found: Mapping[str, Any] = states.describe_execution(executionArn=arn)
            if found["status"] not in _RUNNING:
                return found
            time.sleep(_POLL_SECONDS)


def _read(ended: Mapping[str, Any]) -> dict[str, Any]:
    """What it says it did: its output, or the cause of its failure."""
    for text in (ended.get("output"), ended.get("cause")):
        try:
            found = json_text.loads(text or "")
        except ValueError:
            continue
        if isinstance(found, dict):
            # A failed one tells its counts alone.
            return found if "counts" in found else {"counts": found, "jobs": []}
    return {"counts": {}, "jobs": []}


def _print_sweep(done: Mapping[str, Any], *, dry_run: bool) -> None:
    jobs, counts = _jobs(done), done.get("counts") or {}
    if jobs:
        screen.print_table(
            ("job", "was", "would become" if dry_run else "is now", "why"),
            ((one.get("key"), one.get("old"), one.get("new"), one.get("reason")) for one in jobs),
        )
    if busy := done.get("busy_shards"):
        screen.print_line(
            f"Another sweep is at work on {busy} shards; what is due there was left to it."
        )
    if not counts:
        if not busy:
            screen.print_line("Nothing is due.")
        return
    if more := done.get("not_listed"):
        screen.print_line(f"{more} more jobs are not listed.")
    summary = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    screen.print_line("A dry run, nothing was changed:" if dry_run else "Looked at:", summary)


def _jobs(done: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = done.get("jobs")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _raise_if_unresolved(
    stack: StackConnection, ended: Mapping[str, Any], done: Mapping[str, Any]
) -> None:
    from oncely.reconcile.resolve_group import ERROR

    if ended["status"] != "SUCCEEDED":
        raise CommandError(
            f"The reconciler did not succeed ({ended['status']} {ended.get('error', '')}): "
            f"see `oncely doctor{stack.cli_options}` and docs/operations.md#reconciler-failing.",
            ExitCode.ACTION_NEEDED,
        )
    counts = done.get("counts") or {}
    if ERROR in counts or Status.NEEDS_REVIEW in counts:
        raise CommandError(
            f"Some of these need someone: `oncely list --status needs_review{stack.cli_options}`.",
            ExitCode.ACTION_NEEDED,
        )
