"""`oncely repair`: one change to one job, by a person, with a reason, to the job as it was seen."""

import sys
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from oncely.domain.repairs import Repair
from ops_cli import job_lines, screen
from ops_cli.exits import CommandError, Exit
from ops_cli.find import no_such_job, quoted
from ops_cli.options import As, AsJson, DryRun, Yes, at_a_place
from ops_cli.place import Place
from ops_cli.who import actor

if TYPE_CHECKING:
    from oncely.adapters.support_desk import SupportDesk
    from oncely.domain.jobs import Job
    from oncely.services.job_view import JobView
    from oncely.services.repair_order import Outcome


@at_a_place
def repair(
    place: Place,
    key: Annotated[str, typer.Argument(help="The job key.")],
    action: Annotated[
        Repair,
        typer.Argument(
            help="ask the provider now; return to ready (with proof that nothing was done); "
            "finish or fail, as you have seen it outside; resend its message; "
            "try again as a new attempt."
        ),
    ],
    *,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the job.")],
    reference: Annotated[
        str | None, typer.Option(help="The provider's reference that shows it.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    name: As = None,
    json: AsJson = False,
) -> None:
    """Repair one job; refused if it is no longer the job that was shown."""
    from oncely.domain.keys import JobKey
    from oncely.services.repair_order import RepairOrder

    who = actor(place, name)
    desk = place.desk(actor=who)
    view = desk.inspector.show(key)
    if view is None:
        raise no_such_job(key)
    if not json:
        _tell(view, action)
    _refuse_what_is_not_offered(view, action)
    if not (yes or dry_run):
        confirm(f"Do this as {who}?")
    order = RepairOrder(
        key=JobKey(key),
        repair=action,
        version=view.job.version,
        reason=reason,
        reference=reference,
        actor=who,
        dry_run=dry_run,
    )
    after, said = outcome_of(desk.repairer.repair(order), key)
    _show(desk, after, said, dry_run=dry_run, as_json=json)


def confirm(question: str) -> None:
    """Ask on a terminal; elsewhere nobody can answer, and silence is no yes."""
    if not _is_a_terminal():
        raise CommandError(
            "Cannot prompt for confirmation: stdin is not a terminal. Pass --yes or --dry-run.",
            Exit.USAGE,
        )
    typer.confirm(question, abort=True, err=True)


def _is_a_terminal() -> bool:
    return sys.stdin.isatty()


def outcome_of(outcome: "Outcome", key: str) -> "tuple[Job, str]":
    """What the job is, or would be, and what was heard; or the sentence that ends the command."""
    from oncely.services.repair_order import (
        Changed,
        LocalRowsRefuse,
        NoAnswer,
        NoSuchJob,
        NotAllowed,
        Repaired,
        WouldRepair,
    )

    match outcome:
        case Repaired(after=after, said=said) | WouldRepair(after=after, said=said):
            return after, said
        case NotAllowed(why=why):
            raise CommandError(f"Not done: {why}.")
        case Changed(now=now):
            raise CommandError(
                f"Not done: the job has changed, it is {now.status} now. Look again: "
                f"oncely show {quoted(key)}"
            )
        case NoSuchJob():
            raise no_such_job(key)
        case LocalRowsRefuse(why=why):
            raise CommandError(f"Not done, our own rows refuse: {why}.")
        case NoAnswer(why=why):
            raise CommandError(f"The provider could not say: {why}.", Exit.UNREACHABLE)
        case _:
            assert_never(outcome)


def _refuse_what_is_not_offered(view: "JobView", action: Repair) -> None:
    wanted = next(one for one in view.repairs if one.repair is action)
    if wanted.allowed:
        return
    others = [one.repair for one in view.repairs if one.allowed]
    open_ = f" You may: {', '.join(others)}." if others else ""
    raise CommandError(f"{action.label} is not possible: {wanted.why}.{open_}")


def _tell(view: "JobView", action: Repair) -> None:
    job_lines.facts(view.as_json())
    offered = next(one for one in view.repairs if one.repair is action)
    if offered.allowed:
        screen.say("")
        screen.say(f"{action.label}: {offered.why}.", style="bold")


def _show(desk: "SupportDesk", after: "Job", said: str, *, dry_run: bool, as_json: bool) -> None:
    from oncely.services.job_view import view_of

    inspector = desk.inspector
    view = view_of(after, inspector.registry, now=inspector.clock.now())
    if as_json:
        screen.as_json({"job": view.as_json(), "said": said, "dry_run": dry_run})
        return
    screen.say("")
    screen.say(said)
    became = "A dry run, nothing was changed. It would be" if dry_run else "It is now"
    screen.say(f"{became} {after.status.in_words}. {view.headline}")
