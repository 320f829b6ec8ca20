"""`oncely find` and `oncely show`: jobs with their timelines."""

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.alerts.headlines import sentence
from oncely.cli import console, job_output
from oncely.cli.errors import CommandError
from oncely.cli.options import JsonOption, with_stack
from oncely.cli.stack_connection import StackConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncely.operate.job_queries import SearchResults
    from oncely.operate.repair_request import LookupAnswer

# Fits one screen. `oncely show` prints the rest.
_MAX_TIMELINES: Final = 2
_MAX_VERDICTS: Final = 6


@with_stack
def find(
    stack: StackConnection,
    text: Annotated[str, typer.Argument(help="Order, customer, email, provider id or job key.")],
    *,
    lookup: Annotated[
        bool, typer.Option("--lookup", help="Also ask the provider about each charge now.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Find jobs by order, customer, email or provider id.

    The first line answers "was I charged twice?" from our records. --lookup also asks the provider,
    which knows refunds, disputes and charges that were made elsewhere.

    Examples:
    - `oncely find 18452 --lookup`
    - `oncely find customer_7 --json`
    """
    found = stack.app.job_queries.search(text)
    if found.is_empty:
        found = stack.app.provider_search.search(text)
    if json:
        console.print_json(found.to_json())
    elif found.jobs:
        _print_found(found, stack.app.verdict_lookup.look_up if lookup else None)
    for row in found.unreadable:
        console.print_line(row.reason, to=console.stderr_console())
    if found.is_empty:
        raise CommandError(
            f"No job found for {found.query!r}. {' '.join(found.notes)} Pass a complete order, "
            "customer, email, provider id or job key."
        )


def _print_found(found: "SearchResults", look_up: "Callable[[str], LookupAnswer] | None") -> None:
    for verdict in found.verdicts[:_MAX_VERDICTS]:
        style = "bold red" if verdict.is_duplicate else "bold" if verdict.certain else "bold yellow"
        console.print_line(verdict.sentence, style=style)
        if look_up is not None:
            for key in verdict.charge_keys:
                console.print_line(f"  {look_up(key)}")
    if found.verdicts:
        console.print_line(found.verdicts[0].basis)
        console.print_line("")
    # Charges first, then their follow-ups, by order.
    keys = (key for verdict in found.verdicts for key in verdict.job_keys)
    grouped = {key: place for place, key in enumerate(keys)}
    views = sorted(found.jobs, key=lambda one: grouped.get(one.job.job_key, len(grouped)))
    job_output.print_jobs(view.to_json() for view in views)
    for view in [one for one in views if one.takes_money or not grouped][:_MAX_TIMELINES]:
        console.print_line("")
        job_output.print_heading(view.to_json())
        job_output.print_timeline(view.to_json())


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
    if (view := stack.app.job_queries.get(key)) is None:
        raise job_not_found(key)
    # The Reader policy does not allow to read rejected messages.
    shown = view.with_rejects(stack.app.rejected_messages).to_json()
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
        console.print_pairs((option.repair, sentence(option.reason)) for option in allowed)
    console.print_line(f"About this job type: oncely contracts {view.job.job_type}")


def job_not_found(key: str) -> CommandError:
    """Return the error for a key without a job."""
    return CommandError(f"No job {key!r}. Search by order or customer with `oncely find`.")
