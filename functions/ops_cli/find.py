"""`oncely find` and `oncely show`: what happened, for the person who is asked."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ops_cli import job_lines, screen
from ops_cli.exits import CommandError
from ops_cli.options import AsJson, at_a_place
from ops_cli.place import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncely.services.job_view import JobView

# One screen: of more, the list shows each, and `oncely show` the rest.
_TIMELINES: Final = 2
_ANSWERS: Final = 5
_ACTOR: Final = "command"


@at_a_place
def find(
    place: Place,
    text: Annotated[
        str, typer.Argument(help="An order, a customer, a provider's reference or a job key.")
    ],
    *,
    json: AsJson = False,
) -> None:
    """Answer "was I charged twice?": every job about an order, a customer or a reference."""
    inspector = place.desk(actor=_ACTOR).inspector
    found = inspector.find(text)
    if json:
        jobs = [view.as_short_json() for view in found.jobs]
        screen.as_json({"query": found.query, "jobs": jobs})
    elif found.jobs:
        charging = {kind.job_type for kind in inspector.registry if kind.takes_money}
        _answer(found.jobs, [view for view in found.jobs if view.job.job_type in charging])
    if not found.jobs:
        raise CommandError(
            f"No job is known of {found.query!r}: give the order, the customer, the provider's "
            "reference or the job key as it is written there."
        )


def _answer(views: "Sequence[JobView]", charging: "Sequence[JobView]") -> None:
    _charges(charging)
    job_lines.rows(view.as_json() for view in views)
    for view in (charging or views)[:_TIMELINES]:
        screen.say("")
        screen.say(view.job.job_key, style="bold")
        screen.say(view.headline)
        job_lines.timeline(view.as_json())


def _charges(charging: "Sequence[JobView]") -> None:
    """The answer itself, before everything else."""
    from oncely.domain.charges import Charges

    about = dict.fromkeys(view.subject for view in charging)
    for subject in list(about)[:_ANSWERS]:
        charges = Charges.of(view.job for view in charging if view.subject == subject)
        style = "bold red" if charges.twice else "bold"
        screen.say(f"{subject or 'This'}: {charges.sentence}.", style=style)
    if about:
        screen.say("")


@at_a_place
def show(
    place: Place,
    key: Annotated[str, typer.Argument(help="The job key, such as payment.charge:order_18452.")],
    *,
    json: AsJson = False,
) -> None:
    """Show one job: its status in plain words, its history, and what may be done about it."""
    view = place.desk(actor=_ACTOR).inspector.show(key)
    if view is None:
        raise no_such_job(key)
    if json:
        screen.as_json(view.as_json())
        return
    shown = view.as_json()
    job_lines.facts(shown)
    screen.say("")
    job_lines.timeline(shown)
    screen.say("")
    for offer in view.repairs:
        if offer.allowed:
            screen.say(f"You may {offer.repair}: {offer.why}.")
    if any(offer.allowed for offer in view.repairs):
        screen.say(f"  oncely repair {quoted(key)} ACTION --reason …{place.options}")
    screen.say(f"What this kind of job promises: oncely contracts {view.job.job_type}")


def no_such_job(key: str) -> CommandError:
    """There is none, and how to find one."""
    return CommandError(f"There is no job {key!r}: `oncely find` takes an order or a customer.")


def quoted(key: str) -> str:
    """A key as a shell takes it."""
    from shlex import quote

    return quote(key)
