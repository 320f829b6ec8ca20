"""`oncely find` and `oncely show`: what happened, for the person who is asked."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.cli import console as screen
from oncely.cli import job_output as job_lines
from oncely.cli.exits import CommandError
from oncely.cli.options import JsonOption, with_stack
from oncely.cli.stack_connection import StackConnection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncely.operate.job_view import JobView

# One screen: of more, the list shows each, and `oncely show` the rest.
_MAX_TIMELINES: Final = 2
_MAX_ANSWERS: Final = 5
_ACTOR: Final = "command"


@with_stack
def find(
    stack: StackConnection,
    text: Annotated[
        str, typer.Argument(help="An order, a customer, a provider's reference or a job key.")
    ],
    *,
    json: JsonOption = False,
) -> None:
    """Answer "was I charged twice?": every job about an order, a customer or a reference."""
    inspector = stack.services(actor=_ACTOR).job_queries
    found = inspector.search(text)
    if json:
        screen.print_json(found.to_json())
    elif found.jobs:
        charging = {
            contract_type.job_type
            for contract_type in inspector.registry
            if contract_type.takes_money
        }
        _print_answer(found.jobs, [view for view in found.jobs if view.job.job_type in charging])
    for row in found.unreadable:
        screen.print_line(row.reason, to=screen.stderr_console())
    if not found.jobs and not found.unreadable:
        raise CommandError(
            f"No job is known of {found.query!r}: give the order, the customer, the provider's "
            "reference or the job key as it is written there."
        )


def _print_answer(views: "Sequence[JobView]", charging: "Sequence[JobView]") -> None:
    _print_charges(charging)
    job_lines.print_jobs(view.to_json() for view in views)
    for view in (charging or views)[:_MAX_TIMELINES]:
        screen.print_line("")
        screen.print_line(view.job.job_key, style="bold")
        screen.print_line(view.headline)
        job_lines.print_timeline(view.to_json())


def _print_charges(charging: "Sequence[JobView]") -> None:
    """The answer itself, before everything else."""
    from oncely.domain.charges import ChargeSummary

    subjects = dict.fromkeys(view.subject for view in charging)
    for subject in list(subjects)[:_MAX_ANSWERS]:
        charges = ChargeSummary.from_jobs(view.job for view in charging if view.subject == subject)
        style = "bold red" if charges.is_duplicate else "bold"
        screen.print_line(f"{subject or 'This'}: {charges.summary}.", style=style)
    if subjects:
        screen.print_line("")


@with_stack
def show(
    stack: StackConnection,
    key: Annotated[str, typer.Argument(help="The job key, such as payment.charge:order_18452.")],
    *,
    json: JsonOption = False,
) -> None:
    """Show one job: its status in plain words, its history, and what may be done about it."""
    view = stack.services(actor=_ACTOR).job_queries.get(key)
    if view is None:
        raise job_not_found(key)
    if json:
        screen.print_json(view.to_json())
        return
    shown = view.to_json()
    job_lines.print_details(shown)
    screen.print_line("")
    job_lines.print_timeline(shown)
    screen.print_line("")
    for offer in view.repairs:
        if offer.allowed:
            screen.print_line(f"You may {offer.repair}: {offer.reason}.")
    if any(offer.allowed for offer in view.repairs):
        screen.print_line(
            f"  oncely repair {shell_quote(key)} ACTION --reason …{stack.cli_options}"
        )
    screen.print_line(f"What this kind of job promises: oncely contracts {view.job.job_type}")


def job_not_found(key: str) -> CommandError:
    """There is none, and how to find one."""
    return CommandError(f"There is no job {key!r}: `oncely find` takes an order or a customer.")


def shell_quote(key: str) -> str:
    """A key as a shell takes it."""
    from shlex import quote

    return quote(key)
