"""`oncely repair`: one change to one job, by a person, with a reason, to the job as it was seen."""

import sys
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from oncely.cli import console as screen
from oncely.cli import job_output as job_lines
from oncely.cli.caller_identity import caller_name
from oncely.cli.exits import CommandError, ExitCode
from oncely.cli.find import job_not_found, shell_quote
from oncely.cli.options import ActorOption, DryRunOption, JsonOption, YesOption, with_stack
from oncely.cli.stack_connection import StackConnection
from oncely.domain.repairs import Repair

if TYPE_CHECKING:
    from oncely.aws.operator_services import OperatorServices
    from oncely.domain.jobs import Job
    from oncely.operate.job_view import JobView
    from oncely.operate.repair_request import RepairDetails, RepairOutcome


@with_stack
def repair(
    stack: StackConnection,
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
    provider_ref: Annotated[
        str | None, typer.Option(help="The provider's reference that shows it.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Repair one job; refused if it is no longer the job that was shown."""
    from oncely.domain.keys import JobKey
    from oncely.operate.repair_request import RepairRequest

    actor = caller_name(stack, name)
    services = stack.services(actor=actor)
    view = services.job_queries.get(key)
    if view is None:
        raise job_not_found(key)
    if not json:
        _print_offer(view, action)
    _require_offered(view, action)
    if not (yes or dry_run):
        confirm(f"Do this as {actor}?")
    order = RepairRequest(
        key=JobKey(key),
        repair=action,
        version=view.job.version,
        reason=reason,
        reference=provider_ref,
        actor=actor,
        dry_run=dry_run,
    )
    after, details = unwrap_outcome(services.repairer.repair(order), key)
    _print_result(services, after, details, dry_run=dry_run, as_json=json)


def confirm(question: str) -> None:
    """Ask on a terminal; elsewhere nobody can answer, and silence is no yes."""
    if not _is_terminal():
        raise CommandError(
            "Cannot prompt for confirmation: stdin is not a terminal. Pass --yes or --dry-run.",
            ExitCode.USAGE,
        )
    typer.confirm(question, abort=True, err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def unwrap_outcome(outcome: "RepairOutcome", key: str) -> "tuple[Job, RepairDetails]":
    """What the job is, or would be, and what was heard; or the sentence that ends the command."""
    from oncely.operate.repair_request import (
        BusinessRowConflict,
        JobNotFound,
        NotAllowed,
        ProviderUnavailable,
        Repaired,
        StaleVersion,
        WouldRepair,
    )

    match outcome:
        case Repaired(after=after, details=details) | WouldRepair(after=after, details=details):
            return after, details
        case NotAllowed(reason=reason):
            raise CommandError(f"Not done: {reason}.")
        case StaleVersion(current=now):
            raise CommandError(
                f"Not done: the job has changed, it is {now.status} now. Look again: "
                f"oncely show {shell_quote(key)}"
            )
        case JobNotFound():
            raise job_not_found(key)
        case BusinessRowConflict(reason=reason):
            raise CommandError(f"Not done, our own rows refuse: {reason}.")
        case ProviderUnavailable(reason=reason):
            raise CommandError(f"The provider could not say: {reason}.", ExitCode.UNREACHABLE)
        case _:
            assert_never(outcome)


def _require_offered(view: "JobView", action: Repair) -> None:
    wanted = next(one for one in view.repairs if one.repair is action)
    if wanted.allowed:
        return
    others = [one.repair for one in view.repairs if one.allowed]
    open_ = f" You may: {', '.join(others)}." if others else ""
    raise CommandError(f"{action.label} is not possible: {wanted.reason}.{open_}")


def _print_offer(view: "JobView", action: Repair) -> None:
    job_lines.print_details(view.to_json())
    offered = next(one for one in view.repairs if one.repair is action)
    if offered.allowed:
        screen.print_line("")
        screen.print_line(f"{action.label}: {offered.reason}.", style="bold")


def _print_result(
    services: "OperatorServices",
    after: "Job",
    details: "RepairDetails",
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from oncely.operate.job_view import build_view

    inspector = services.job_queries
    view = build_view(after, inspector.registry, now=inspector.clock.now())
    if as_json:
        screen.print_json({"job": view.to_json(), **details.to_json(), "dry_run": dry_run})
        return
    screen.print_line("")
    screen.print_line(str(details))
    became = "A dry run, nothing was changed. It would be" if dry_run else "It is now"
    screen.print_line(f"{became} {after.status.label}. {view.headline}")
