"""`oncely repair`: one change to one job, with a reason, if the job is still as shown."""

from shlex import quote
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from oncely.cli import console, job_output
from oncely.cli.errors import CommandError, ExitCode
from oncely.cli.find import job_not_found
from oncely.cli.options import ActorOption, DryRunOption, JsonOption, YesOption, with_stack
from oncely.cli.stack_connection import StackConnection, caller_name
from oncely.domain.repairs import Repair

if TYPE_CHECKING:
    from oncely.aws.operator_services import OperatorServices
    from oncely.domain.jobs import Job
    from oncely.operate.job_view import JobView
    from oncely.operate.repair_request import RepairDetails, RepairOutcome


@with_stack
def repair(
    stack: StackConnection,
    key: Annotated[str, typer.Argument(help="Job key.")],
    action: Annotated[
        Repair,
        typer.Argument(
            help="lookup: look up the outcome at the provider. "
            "reopen: run it again, if the provider shows that nothing happened. "
            "mark-finished, mark-failed: record what you saw at the provider. "
            "resend: resend its message. "
            "resubmit: start a new job after a failure."
        ),
    ],
    *,
    reason: Annotated[str, typer.Option(help="Reason, recorded in the timeline.")],
    provider_ref: Annotated[
        str | None, typer.Option(help="Provider reference that proves the outcome.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Repair one job.

    Fails if the job changed since it was shown.

    Examples:
    - `oncely repair payment.charge:order_18452 lookup --reason 'customer asked'`
    - `oncely repair payment.charge:order_18452 mark-failed --reason declined --dry-run`
    """
    from oncely.domain.keys import JobKey
    from oncely.operate.repair_request import RepairRequest

    actor = caller_name(stack, name)
    services = stack.services(actor=actor)
    if (view := services.job_queries.get(key)) is None:
        raise job_not_found(key)
    if not json:
        job_output.print_details(view.to_json())
    _require_allowed(view, action, as_json=json)
    if not (yes or dry_run):
        console.confirm(f"Repair this job as {actor}?")
    request = RepairRequest(
        key=JobKey(key),
        repair=action,
        version=view.job.version,
        reason=reason,
        reference=provider_ref,
        actor=actor,
        dry_run=dry_run,
    )
    after, details = unwrap_outcome(services.repairer.repair(request), key)
    _print_result(services, after, details, dry_run=dry_run, as_json=json)


def unwrap_outcome(outcome: "RepairOutcome", key: str) -> "tuple[Job, RepairDetails]":
    """Return the repaired job and the details, or raise the error that ends the command."""
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
            raise CommandError(f"Not repaired: {reason}.")
        case StaleVersion(current=now):
            raise CommandError(
                f"Not repaired: the job has changed and is now {now.status}. Check it with "
                f"`oncely show {quote(key)}`."
            )
        case JobNotFound():
            raise job_not_found(key)
        case BusinessRowConflict(reason=reason):
            raise CommandError(f"Not repaired, the business rows conflict: {reason}.")
        case ProviderUnavailable(reason=reason):
            raise CommandError(f"The provider lookup failed: {reason}.", ExitCode.UNREACHABLE)
        case _:
            assert_never(outcome)


def _require_allowed(view: "JobView", action: Repair, *, as_json: bool) -> None:
    wanted = next(one for one in view.repairs if one.repair is action)
    if not wanted.allowed:
        others = ", ".join(one.repair for one in view.repairs if one.allowed)
        raise CommandError(
            f"Repair {action} is not allowed: {wanted.reason}."
            f"{f' Allowed now: {others}.' if others else ''}"
        )
    if not as_json:
        console.print_line("")
        console.print_line(f"{action.label}: {wanted.reason}.", style="bold")


def _print_result(
    services: "OperatorServices",
    after: "Job",
    details: "RepairDetails",
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from oncely.operate.job_view import build_view

    queries = services.job_queries
    view = build_view(after, queries.registry, now=queries.clock.now())
    if as_json:
        console.print_json({"job": view.to_json(), **details.to_json(), "dry_run": dry_run})
        return
    console.print_line("")
    console.print_line(str(details))
    became = "Dry run: nothing was changed. The job would be" if dry_run else "The job is now"
    console.print_line(f"{became} {after.status.label}. {view.headline}")
