"""`oncely reconcile`: run the reconciler now, and tell what it did for each job."""

import json as json_text
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from oncely.domain.lifecycle import Status
from oncely.domain.times import time_text
from ops_cli import screen
from ops_cli.exits import CommandError, Exit
from ops_cli.find import no_such_job
from ops_cli.moments import moment
from ops_cli.options import AsJson, DryRun, at_a_place
from ops_cli.place import Place

_RUNNING: Final = frozenset({"RUNNING", "PENDING_REDRIVE"})
_EVERY: Final = 0.5  # seconds


@at_a_place
def reconcile(
    place: Place,
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
    dry_run: DryRun = False,
    wait: Annotated[bool, typer.Option(help="Wait until it is done.")] = True,
    json: AsJson = False,
) -> None:
    """Ask the providers now what became of jobs; it never acts by itself."""
    now = datetime.now(UTC)
    sweep: dict[str, object] = {"limit": limit, "dry_run": dry_run}
    given = {"job_type": job_type, "key": key, "from": since, "to": until}
    for name, value in given.items():
        if value is not None:
            is_time = name in {"from", "to"}
            sweep[name] = time_text(moment(value, now=now)) if is_time else value
    machine = _machine(place)
    states = place.client("stepfunctions")
    arn = states.start_execution(stateMachineArn=machine, input=json_text.dumps(sweep))[
        "executionArn"
    ]
    if not wait:
        screen.as_json({"execution": arn}) if json else screen.say("started:", arn)
        return
    from oncely.services.reconcile import GONE

    ended = _wait(states, arn)
    done = _read(ended)
    if json:
        screen.as_json({"execution": arn, "status": ended["status"], **done})
    else:
        _show(done, dry_run=dry_run)
    _judge(place, ended, done)
    if key is not None and GONE in (done.get("counts") or {}):
        raise no_such_job(key)


def _machine(place: Place) -> str:
    try:
        return place.outputs["ReconcilerArn"]
    except KeyError:
        raise CommandError(
            f"The stack {place.name} names no reconciler: deploy it again.", Exit.UNREACHABLE
        ) from None


def _wait(states: Any, arn: str) -> Mapping[str, Any]:  # noqa: ANN401  # boto3's client
    """Until it has ended; the state machine itself gives up after half an hour."""
    with screen.aside().status("asking the providers…"):
        while True:
            found: Mapping[str, Any] = states.describe_execution(executionArn=arn)
            if found["status"] not in _RUNNING:
                return found
            time.sleep(_EVERY)


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


def _show(done: Mapping[str, Any], *, dry_run: bool) -> None:
    jobs, counts = _jobs(done), done.get("counts") or {}
    if jobs:
        screen.table(
            ("job", "was", "would become" if dry_run else "is now", "why"),
            ((one.get("key"), one.get("old"), one.get("new"), one.get("reason")) for one in jobs),
        )
    if busy := done.get("busy_shards"):
        screen.say(f"Another sweep is at work on {busy} shards; what is due there was left to it.")
    if not counts:
        if not busy:
            screen.say("Nothing is due.")
        return
    if more := done.get("not_listed"):
        screen.say(f"{more} more jobs are not listed.")
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    screen.say("A dry run, nothing was changed:" if dry_run else "Looked at:", said)


def _jobs(done: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = done.get("jobs")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _judge(place: Place, ended: Mapping[str, Any], done: Mapping[str, Any]) -> None:
    from oncely.services.sweep_report import ERROR

    if ended["status"] != "SUCCEEDED":
        raise CommandError(
            f"The reconciler did not succeed ({ended['status']} {ended.get('error', '')}): "
            f"see `oncely doctor{place.options}` and docs/operations.md#the-reconciler-fails.",
            Exit.ATTENTION,
        )
    counts = done.get("counts") or {}
    if ERROR in counts or Status.NEEDS_REVIEW in counts:
        raise CommandError(
            f"Some of these need someone: `oncely list --status needs_review{place.options}`.",
            Exit.ATTENTION,
        )
