"""`oncely redrive`: send the messages of jobs again that came to the dead letters."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from oncely.cli import console as screen
from oncely.cli.caller_identity import caller_name
from oncely.cli.exits import CommandError, ExitCode
from oncely.cli.find import job_not_found
from oncely.cli.list_jobs import iterate_pages
from oncely.cli.options import ActorOption, DryRunOption, JsonOption, YesOption, with_stack
from oncely.cli.repair import confirm, unwrap_outcome
from oncely.cli.stack_connection import StackConnection
from oncely.domain.lifecycle import Status
from oncely.domain.repairs import Repair

if TYPE_CHECKING:
    from oncely.aws.operator_services import OperatorServices
    from oncely.operate.job_view import JobView
    from oncely.operate.repair_request import RepairRequest


@with_stack
def redrive(
    stack: StackConnection,
    key: Annotated[
        str | None, typer.Argument(help="One job that is ready; none: all from dead letters.")
    ] = None,
    *,
    job_type: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    reason: Annotated[
        str, typer.Option(help="Why; it is kept with each job.")
    ] = "redriven from the dead letters",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Send the messages of waiting jobs again, now; a second message does no harm."""
    actor = caller_name(stack, name)
    services = stack.services(actor=actor)
    views = list(_select_jobs(services, key, job_type))
    if not views:
        screen.print_line("No job waits after the dead letters.", to=screen.stderr_console())
        return
    if not (yes or dry_run):
        confirm(f"Send {len(views)} messages again, as {actor}?")
    from oncely.operate.repair_request import RepairRequest

    failed = 0
    for view in _with_progress(views):
        order = RepairRequest(
            key=view.job.job_key,
            repair=Repair.RESEND,
            version=view.job.version,
            reason=reason,
            actor=actor,
            dry_run=dry_run,
        )
        failed += not _redrive_one(services, order, as_json=json)
    if failed:
        raise typer.Exit(ExitCode.REFUSED)


def _redrive_one(services: "OperatorServices", order: "RepairRequest", *, as_json: bool) -> bool:
    """One of them; what is refused, or meets a busy moment, must not stop the others."""
    from oncely.domain.errors import UnavailableError

    try:
        _, details = unwrap_outcome(services.repairer.repair(order), order.key)
    except CommandError as error:
        sent, message = False, error.message
    except UnavailableError as error:
        sent, message = False, str(error)
    else:
        sent, message = True, str(details)
    if as_json:
        screen.print_json(
            {"job_key": order.key, "sent": sent, "message": message, "dry_run": order.dry_run}
        )
    else:
        word = ("would send" if order.dry_run else "sent") if sent else "not sent"
        screen.print_line(f"{word:<10}", order.key, "" if sent else message)
    return sent


def _select_jobs(
    services: "OperatorServices", key: str | None, job_type: str | None
) -> "Iterator[JobView]":
    if key is not None:
        view = services.job_queries.get(key)
        if view is None:
            raise job_not_found(key)
        yield view
        return
    for page in iterate_pages(services.job_queries, status=Status.READY.value, job_type=job_type):
        yield from (view for view in page.jobs if view.job.stranded_since is not None)


def _with_progress(views: "list[JobView]") -> "Iterator[JobView]":
    from rich.progress import track

    quiet = len(views) == 1 or not screen.stderr_console().is_terminal
    yield from track(
        views, "sending", console=screen.stderr_console(), transient=True, disable=quiet
    )
