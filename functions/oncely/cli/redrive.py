"""`oncely redrive`: resends the messages of jobs that were dead-lettered."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, ExitCode
from oncely.cli.jobs import iterate_pages, job_not_found
from oncely.cli.options import (
    ActorOption,
    DryRunOption,
    JobTypeOption,
    JsonOption,
    YesOption,
    with_stack,
)
from oncely.cli.repair import repair_or_fail
from oncely.cli.stack_connection import StackConnection, actor_name, caller_identity
from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair

if TYPE_CHECKING:
    from oncely.app import App
    from oncely.operate.job_queries import JobQueries
    from oncely.operate.job_view import JobView
    from oncely.operate.repair_request import RepairRequest


@with_stack
def redrive(
    stack: StackConnection,
    key: Annotated[
        str | None, typer.Argument(help="Job key of a ready job (default: all stranded jobs).")
    ] = None,
    *,
    job_type: JobTypeOption = None,
    reason: Annotated[
        str, typer.Option(help="Reason, recorded in the timeline.")
    ] = "redriven from the dead letter queue",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Send a new message for each stranded job now.

    A job is stranded if its message was dead-lettered: it is ready, and no worker has claimed it.
    The message comes from the job's row and goes to the job's own queue, where a worker runs it.
    Nothing is read from the dead letter queue. Duplicates are harmless.

    Examples:
    - `oncely redrive --dry-run`
    - `oncely redrive --type payment.charge --yes`
    """
    actor = actor_name(caller_identity(stack), name)
    views = list(_select_jobs(stack.app.job_queries, key, job_type))
    if not views:
        console.print_line("No jobs are stranded.", to=console.stderr_console())
        return
    count = "1 job" if len(views) == 1 else f"{len(views)} jobs"
    if not (yes or dry_run):
        console.confirm(f"Send a new message for {count} as {actor}?")
    from oncely.operate.repair_request import RepairRequest

    failed = 0
    for view in console.with_progress(views, "sending", total=len(views)):
        request = RepairRequest(
            key=view.job.job_key,
            repair=Repair.RESEND,
            version=view.job.version,
            reason=reason,
            actor=actor,
            dry_run=dry_run,
        )
        failed += not _redrive_one(stack.app, request, as_json=json)
    if failed:
        raise typer.Exit(ExitCode.REFUSED)
    if not json:
        console.print_line(_summary(count, dry_run=dry_run), to=console.stderr_console())


def _summary(count: str, *, dry_run: bool) -> str:
    if dry_run:
        return f"Nothing was sent. Without --dry-run, {count} would get a new message."
    return f"Sent a new message for {count}. `oncely list --status ready` lists those that wait."


def _redrive_one(app: "App", request: "RepairRequest", *, as_json: bool) -> bool:
    """Resend one message. A failure is printed and does not stop the others."""
    from oncely.core.errors import UnavailableError

    try:
        _, details = repair_or_fail(app, request)
    except (CommandError, UnavailableError) as error:
        sent, message = False, str(error)
    else:
        sent, message = True, str(details)
    if as_json:
        console.print_json(
            {"job_key": request.key, "sent": sent, "message": message, "dry_run": request.dry_run}
        )
    else:
        word = ("would send" if request.dry_run else "sent") if sent else "not sent"
        console.print_line(f"{word:<10}", request.key, "" if sent else message)
    return sent


def _select_jobs(
    queries: "JobQueries", key: str | None, job_type: str | None
) -> "Iterator[JobView]":
    if key is not None:
        if (view := queries.get(key)) is None:
            raise job_not_found(key)
        yield view
        return
    from oncely.operate.job_lists import JobFilter

    ready = JobFilter(status=Status.READY.value, job_type=job_type)
    for page in iterate_pages(queries, ready):
        yield from (view for view in page.jobs if view.job.is_stranded)
