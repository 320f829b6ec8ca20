"""`oncely bulk`: one repair of many jobs, which can be interrupted and continued."""

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, ExitCode
from oncely.cli.options import (
    ActorOption,
    DryRunOption,
    JobTypeOption,
    JsonOption,
    YesOption,
    time_option,
    with_stack,
)
from oncely.cli.stack_connection import StackConnection, actor_name, caller_identity
from oncely.core.repairs import Repair

if TYPE_CHECKING:
    from oncely.operate.bulk_repairer import BulkRepairer, BulkResult, BulkRun, BulkSelection

app: Final = typer.Typer(help="Repair many jobs.", no_args_is_help=True)

_MAX_REFUSALS_SHOWN: Final = 5


@app.command()
@with_stack
def start(
    stack: StackConnection,
    action: Annotated[
        Repair,
        typer.Argument(
            help="resubmit (failed jobs), resend or cancel (ready jobs), mark-failed (jobs in "
            "review)."
        ),
    ],
    *,
    reason: Annotated[str, typer.Option(help="Reason, recorded in the timeline of each job.")],
    job_type: JobTypeOption = None,
    status: Annotated[
        str | None, typer.Option(help="Only jobs in this status (default: depends on the action).")
    ] = None,
    since: Annotated[
        datetime | None,
        time_option(
            help="Only jobs that entered the status (or are due) after this time: a duration (24h) "
            "or a date."
        ),
    ] = None,
    until: Annotated[datetime | None, time_option(help="The same, before this time.")] = None,
    error: Annotated[
        str | None, typer.Option(help="Only jobs whose last error contains this text.")
    ] = None,
    customer: Annotated[str | None, typer.Option(help="Only jobs of this customer.")] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Select jobs and repair each of them.

    The selection is saved first, so that an interrupted run can be continued. A job that changes
    after it was selected is skipped.

    Examples:
    - `oncely bulk start resubmit --type payment.charge --since 2h --reason outage --dry-run`
    - `oncely bulk start cancel --customer customer_7 --reason 'account closed'`
    """
    from oncely.operate.job_lists import JobFilter

    identity = caller_identity(stack)
    actor = actor_name(identity, name)
    bulk = stack.app.bulk_repairer
    wanted = JobFilter(
        status=status,
        job_type=job_type,
        since=since,
        until=until,
        error=error,
        customer_id=customer,
    )
    selection = bulk.select(action, wanted)
    _print_selection(bulk, selection, reason=reason, actor=actor, as_json=json and dry_run)
    if dry_run:
        return
    if not selection.jobs:
        raise CommandError("No job was selected. Nothing was changed.")
    if not yes:
        console.confirm(f"{action.label}: {len(selection.jobs)} jobs, as {actor}?")
    run = bulk.start(selection, reason=reason, actor=actor)
    _perform(bulk, run, actor=actor, identity=identity, as_json=json)


@app.command("continue")
@with_stack
def continue_run(
    stack: StackConnection,
    run_id: Annotated[str, typer.Argument(help="Id of the run, as `start` printed it.")],
    *,
    yes: YesOption = False,
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Continue an interrupted run. Jobs that it has repaired are skipped.

    Examples:
    - `oncely bulk continue 1f0c9a52e4b7d836`
    """
    identity = caller_identity(stack)
    actor = actor_name(identity, name)
    bulk = stack.app.bulk_repairer
    run = bulk.load(run_id)
    if not yes:
        about = f"{run.repair.label}: {len(run.jobs)} jobs that {run.actor} selected"
        console.confirm(f"{about}, as {actor}?")
    _perform(bulk, run, actor=actor, identity=identity, as_json=json)


def _print_selection(
    bulk: "BulkRepairer", selection: "BulkSelection", *, reason: str, actor: str, as_json: bool
) -> None:
    count = len(selection.jobs)
    previews = bulk.preview(selection, reason=reason, actor=actor)
    if as_json:
        console.print_json(
            {
                "repair": selection.repair,
                "jobs": count,
                "refused": dict(selection.refused),
                "complete": selection.is_complete,
                "examples": [one.to_json() for one in previews],
            }
        )
        return
    log = console.stderr_console()
    console.print_line(f"{selection.repair.label}: {count} jobs", style="bold", to=log)
    for one in previews:
        console.print_line(f"  {one.key}", one.outcome, one.detail, to=log)
    if count > len(previews):
        console.print_line(f"  and {count - len(previews)} more", to=log)
    for why, number in selection.refused.most_common(_MAX_REFUSALS_SHOWN):
        console.print_line(f"Not selected: {number} jobs, {why}", to=log)
    if not selection.is_complete:
        console.print_line(
            "Not all jobs of this list were read. Narrow the filters, or repeat the command after "
            "this run.",
            style="yellow",
            to=log,
        )


def _perform(
    bulk: "BulkRepairer", run: "BulkRun", *, actor: str, identity: str, as_json: bool
) -> None:
    """Repair the jobs, with progress. An interrupt leaves a run that can be continued."""
    log = console.stderr_console()
    console.print_line(f"Run {run.run_id}: {len(run.jobs)} jobs.", to=log)
    counts: Counter[str] = Counter()
    results = bulk.perform(run, actor=actor, identity=identity)
    try:
        for one in console.with_progress(results, "repairing", total=len(run.jobs)):
            counts[one.outcome] += 1
            _print_result(one, as_json=as_json)
    except KeyboardInterrupt:
        done = counts.total()
        raise CommandError(
            f"Interrupted after {done} of {len(run.jobs)} jobs. Nothing is done twice: continue "
            f"with `oncely bulk continue {run.run_id}`."
        ) from None
    summary = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    console.print_line(f"Run {run.run_id}: {summary}.", to=log)
    from oncely.operate.bulk_repairer import BulkOutcome

    if counts[BulkOutcome.UNREACHABLE]:
        hint = f"Continue with `oncely bulk continue {run.run_id}`."
        raise CommandError(f"Some jobs were not reached. {hint}", ExitCode.UNREACHABLE)
    if counts[BulkOutcome.REFUSED]:
        raise typer.Exit(ExitCode.REFUSED)


def _print_result(one: "BulkResult", *, as_json: bool) -> None:
    if as_json:
        console.print_json(one.to_json())
    else:
        console.print_line(f"{one.outcome:<12}", one.key, one.detail)
