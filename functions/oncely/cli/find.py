"""`oncely find` and `oncely show`: jobs with their timelines."""

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.cli import console, job_output
from oncely.cli.errors import CommandError
from oncely.cli.options import JsonOption, with_stack
from oncely.cli.stack_connection import StackConnection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncely.operate.job_view import JobView

# Fits one screen. `oncely show` prints the rest.
_MAX_TIMELINES: Final = 2
_MAX_CHARGE_SUMMARIES: Final = 5
_ACTOR: Final = "command"


@with_stack
def find(
    stack: StackConnection,
    text: Annotated[str, typer.Argument(help="Order, customer, provider reference or job key.")],
    *,
    json: JsonOption = False,
) -> None:
    """Find jobs by order, customer or reference.

    The first line answers "was I charged twice?".

    Examples:
    - `oncely find 18452`
    - `oncely find customer_7 --json`
    """
    queries = stack.services(actor=_ACTOR).job_queries
    found = queries.search(text)
    if json:
        console.print_json(found.to_json())
    elif found.jobs:
        charging = {one.job_type for one in queries.registry if one.takes_money}
        _print_jobs(found.jobs, [view for view in found.jobs if view.job.job_type in charging])
    for row in found.unreadable:
        console.print_line(row.reason, to=console.stderr_console())
    if not found.jobs and not found.unreadable:
        raise CommandError(
            f"No job found for {found.query!r}. Pass a complete order, customer, provider "
            "reference or job key."
        )


def _print_jobs(views: "Sequence[JobView]", charging: "Sequence[JobView]") -> None:
    _print_charges(charging)
    job_output.print_jobs(view.to_json() for view in views)
    for view in (charging or views)[:_MAX_TIMELINES]:
        console.print_line("")
        console.print_line(view.job.job_key, style="bold")
        console.print_line(view.headline)
        job_output.print_timeline(view.to_json())


def _print_charges(charging: "Sequence[JobView]") -> None:
    from oncely.domain.charges import ChargeSummary

    subjects = dict.fromkeys(view.subject for view in charging)
    for subject in list(subjects)[:_MAX_CHARGE_SUMMARIES]:
        charges = ChargeSummary.from_jobs(view.job for view in charging if view.subject == subject)
        style = "bold red" if charges.is_duplicate else "bold"
        console.print_line(f"{subject or 'This'}: {charges.summary}.", style=style)
    if subjects:
        console.print_line("")


@with_stack
def show(
    stack: StackConnection,
    key: Annotated[str, typer.Argument(help="Job key, such as payment.charge:order_18452.")],
    *,
    json: JsonOption = False,
) -> None:
    """Show one job: details, timeline, repairs.

    Examples:
    - `oncely show payment.charge:order_18452`
    """
    if (view := stack.services(actor=_ACTOR).job_queries.get(key)) is None:
        raise job_not_found(key)
    shown = view.to_json()
    if json:
        console.print_json(shown)
        return
    job_output.print_details(shown)
    console.print_line("")
    job_output.print_timeline(shown)
    console.print_line("")
    if allowed := [option for option in view.repairs if option.allowed]:
        console.print_line(
            f"Repair it with: oncely repair {quote(key)} ACTION --reason …{stack.cli_options}"
        )
        for option in allowed:
            console.print_line(f"  {option.repair:<14}{option.reason}.")
    console.print_line(f"About this job type: oncely contracts {view.job.job_type}")


def job_not_found(key: str) -> CommandError:
    """Return the error for a key without a job."""
    return CommandError(f"No job {key!r}. Search by order or customer with `oncely find`.")
