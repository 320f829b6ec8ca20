"""`oncely repair`: one change to one job, with a reason, if the job is still as shown."""

from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, ExitCode, usage_error
from oncely.cli.jobs import job_not_found, print_details
from oncely.cli.options import ActorOption, DryRunOption, JsonOption, YesOption, with_stack
from oncely.cli.stack_connection import StackConnection, actor_name, caller_identity
from oncely.core.repairs import Repair
from oncely.core.text import parse_time

if TYPE_CHECKING:
    from oncely.app import App
    from oncely.core.job_row import JobRow
    from oncely.operate.job_view import JobView
    from oncely.operate.repair_request import RepairDetails, RepairRequest


def _parse_run_at(text: str) -> datetime:
    try:
        return parse_time(text.strip())
    except ValueError:
        raise usage_error(f"Invalid time {text!r}: write 2026-12-07T09:00:00Z.") from None


@with_stack
def repair(
    stack: StackConnection,
    key: Annotated[str, typer.Argument(help="Job key.")],
    action: Annotated[
        Repair,
        typer.Argument(
            help="lookup: look up the outcome at the provider. "
            "reopen: run it again, if the provider shows that nothing happened. "
            "mark-finished, mark-failed: end it, if the provider confirms that or cannot be "
            "asked. "
            "resend: resend its message. "
            "run-now, reschedule: run a scheduled job now, or at another time. "
            "resubmit: start a new job after a failure. "
            "cancel: end it before anything is done."
        ),
    ],
    *,
    reason: Annotated[str, typer.Option(help="Reason, recorded in the timeline.")],
    provider_ref: Annotated[
        str | None,
        typer.Option(help="The provider's id of the effect. It must be this job's own."),
    ] = None,
    at: Annotated[
        datetime | None,
        typer.Option(
            help="New time for reschedule, such as 2026-12-07T09:00:00Z (default: UTC).",
            parser=_parse_run_at,
            metavar="<str>",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Repair one job.

    Fails if the job changed since it was shown, or if the provider contradicts you.
    Above the amount that the stage sets, another operator must repeat the repair to confirm it.

    Examples:
    - `oncely repair payment.charge:order_18452 lookup --reason 'customer asked'`
    - `oncely repair payment.charge:order_18452 mark-failed --reason declined --dry-run`
    - `oncely repair receipt.send:order_18452 reschedule --at 2026-12-07T09:00:00Z --reason moved`
    """
    _change_job(
        stack,
        key,
        action,
        reason=reason,
        reference=provider_ref,
        run_at=at,
        dry_run=dry_run,
        yes=yes,
        name=name,
        json=json,
    )


@with_stack
def cancel(
    stack: StackConnection,
    key: Annotated[str, typer.Argument(help="Job key.")],
    *,
    reason: Annotated[str, typer.Option(help="Reason, recorded in the timeline.")],
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Cancel one job before anything is done.

    If something is open at the provider, a worker cancels that first. If no job has this key yet,
    its first message will be a duplicate.

    Examples:
    - `oncely cancel payment.charge:order_18452 --reason 'ordered twice'`
    """
    action = Repair.CANCEL
    _change_job(
        stack, key, action, reason=reason, dry_run=dry_run, yes=yes, name=name, json=json, new=True
    )


def _change_job(
    stack: StackConnection,
    key: str,
    action: Repair,
    *,
    reason: str,
    dry_run: bool,
    yes: bool,
    name: str | None,
    json: bool,
    reference: str | None = None,
    run_at: datetime | None = None,
    new: bool = False,
) -> None:
    """Show a job, confirm and apply. With `new`, the key may be one that no job has yet."""
    from oncely.core.keys import JobKey
    from oncely.operate.repair_request import NO_VERSION, RepairRequest

    identity = caller_identity(stack)
    actor = actor_name(identity, name)
    if (view := stack.app.job_queries.get(key)) is not None:
        if not json:
            print_details(view.to_json())
        _require_allowed(view, action, as_json=json)
    elif new:
        _warn_about_new_key(stack.app, key)
    else:
        raise job_not_found(key)
    if not (yes or dry_run):
        console.confirm(f"{'Cancel' if new else 'Repair'} this job as {actor}?")
    request = RepairRequest(
        key=JobKey(key),
        repair=action,
        version=NO_VERSION if view is None else view.job.version,
        reason=reason,
        reference=reference,
        run_at=run_at,
        actor=actor,
        signed_in_as=identity,
        dry_run=dry_run,
    )
    after, details = repair_or_fail(stack.app, request)
    shown = stack.app.job_queries.view(after)
    if json:
        console.print_json({"job": shown.to_json(), **details.to_json(), "dry_run": dry_run})
        return
    console.print_line("")
    console.print_line(str(details))
    became = "Dry run: nothing was changed. The job would be" if dry_run else "The job is now"
    console.print_line(f"{became} {after.status.label}. {shown.headline}")


def _warn_about_new_key(app: "App", key: str) -> None:
    """Warn that no job has this key: a mistyped key would cancel nothing."""
    from oncely.core.errors import InvalidInputError
    from oncely.core.keys import JobKey, is_job_key, job_type_of

    if not is_job_key(key):
        raise job_not_found(key)
    try:
        contract_type = app.registry.contract(job_type_of(JobKey(key)))
    except InvalidInputError as error:
        raise job_not_found(key) from error
    example = contract_type.model_validate(contract_type.example_message()).job_key()
    console.print_line(
        f"No job has the key {key} yet. A message with exactly this key will do nothing. Check the "
        f"key: those of {contract_type.job_type} look like {example}.",
        style="yellow",
        to=console.stderr_console(),
    )


def repair_or_fail(app: "App", request: "RepairRequest") -> "tuple[JobRow, RepairDetails]":
    """Return the repaired job and the details, or raise the error that ends the command."""
    from oncely.operate.repair_request import (
        BusinessRowConflict,
        Contradicted,
        JobNotFound,
        NotAllowed,
        ProviderUnavailable,
        Repaired,
        StaleVersion,
    )

    match app.repairer.repair(request):
        case Repaired(after=after, details=details):
            return after, details
        case NotAllowed(reason=reason) | Contradicted(reason=reason):
            raise CommandError(f"Not repaired: {reason}.")
        case StaleVersion(current=now):
            raise CommandError(
                f"Not repaired: the job has changed and is now {now.status}. Check it with "
                f"`oncely show {quote(request.key)}`."
            )
        case JobNotFound():
            raise job_not_found(request.key)
        case BusinessRowConflict(reason=reason):
            raise CommandError(f"Not repaired, the business rows conflict: {reason}.")
        case ProviderUnavailable(reason=reason):
            raise CommandError(f"The provider lookup failed: {reason}.", ExitCode.UNREACHABLE)
        case unreachable:
            assert_never(unreachable)


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
