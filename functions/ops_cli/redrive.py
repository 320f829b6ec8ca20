"""`oncely redrive`: send the messages of jobs again that came to the dead letters."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from oncely.domain.lifecycle import Status
from oncely.domain.repairs import Repair
from ops_cli import screen
from ops_cli.exits import CommandError, Exit
from ops_cli.find import no_such_job
from ops_cli.list_jobs import pages
from ops_cli.options import As, AsJson, DryRun, Yes, at_a_place
from ops_cli.place import Place
from ops_cli.repair import confirm, outcome_of
from ops_cli.who import actor

if TYPE_CHECKING:
    from oncely.adapters.support_desk import SupportDesk
    from oncely.services.job_view import JobView
    from oncely.services.repair_order import RepairOrder


@at_a_place
def redrive(
    place: Place,
    key: Annotated[
        str | None, typer.Argument(help="One job that is ready; none: all from dead letters.")
    ] = None,
    *,
    job_type: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    reason: Annotated[
        str, typer.Option(help="Why; it is kept with each job.")
    ] = "redriven from the dead letters",
    dry_run: DryRun = False,
    yes: Yes = False,
    name: As = None,
    json: AsJson = False,
) -> None:
    """Send the messages of waiting jobs again, now; a second message does no harm."""
    who = actor(place, name)
    desk = place.desk(actor=who)
    views = list(_wanted(desk, key, job_type))
    if not views:
        screen.say("No job waits after the dead letters.", to=screen.aside())
        return
    if not (yes or dry_run):
        confirm(f"Send {len(views)} messages again, as {who}?")
    from oncely.services.repair_order import RepairOrder

    failed = 0
    for view in _with_progress(views):
        order = RepairOrder(
            key=view.job.job_key,
            repair=Repair.RESEND,
            version=view.job.version,
            reason=reason,
            actor=who,
            dry_run=dry_run,
        )
        failed += not _redriven(desk, order, as_json=json)
    if failed:
        raise typer.Exit(Exit.REFUSED)


def _redriven(desk: "SupportDesk", order: "RepairOrder", *, as_json: bool) -> bool:
    """One of them; what is refused, or meets a busy moment, must not stop the others."""
    from oncely.domain.errors import UnavailableError

    try:
        _, said = outcome_of(desk.repairer.repair(order), order.key)
    except CommandError as error:
        sent, said = False, error.sentence
    except UnavailableError as error:
        sent, said = False, str(error)
    else:
        sent = True
    if as_json:
        screen.as_json({"job_key": order.key, "sent": sent, "said": said, "dry_run": order.dry_run})
    else:
        word = ("would send" if order.dry_run else "sent") if sent else "not sent"
        screen.say(f"{word:<10}", order.key, "" if sent else said)
    return sent


def _wanted(desk: "SupportDesk", key: str | None, job_type: str | None) -> "Iterator[JobView]":
    if key is not None:
        view = desk.inspector.show(key)
        if view is None:
            raise no_such_job(key)
        yield view
        return
    for page in pages(desk.inspector, status=Status.READY.value, job_type=job_type):
        yield from (view for view in page.jobs if view.job.stranded_since is not None)


def _with_progress(views: "list[JobView]") -> "Iterator[JobView]":
    from rich.progress import track

    quiet = len(views) == 1 or not screen.aside().is_terminal
    yield from track(views, "sending", console=screen.aside(), transient=True, disable=quiet)
