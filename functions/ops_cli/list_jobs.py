"""`oncely list`: jobs by status, type and time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.domain.lifecycle import Status
from ops_cli import job_lines, screen
from ops_cli.contracts import job_types
from ops_cli.exits import CommandError, Exit
from ops_cli.moments import moment
from ops_cli.options import AsJson, at_a_place
from ops_cli.place import Place

if TYPE_CHECKING:
    from oncely.services.inspect import Inspector, Page
    from oncely.services.job_view import JobView

_LISTS: Final = ("in_progress", *Status)
_PAGE: Final = 100


def _statuses(incomplete: str) -> list[str]:
    return [name for name in _LISTS if name.startswith(incomplete)]


@at_a_place
def list_jobs(
    place: Place,
    *,
    status: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(_LISTS)} (default: needs_review, unknown and failed).",
            autocompletion=_statuses,
        ),
    ] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="In this status (or due) since then: 24h (ago), or a date."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Until then.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many jobs.")] = 25,
    json: AsJson = False,
) -> None:
    """List jobs, those that changed last first; in progress, the longest due first."""
    now = datetime.now(UTC)
    wanted = {
        "status": _known(status),
        "job_type": job_type,
        "since": None if since is None else moment(since, now=now),
        "until": None if until is None else moment(until, now=now),
    }
    views, hint = _taken(place.desk(actor="command").inspector, limit=limit, **wanted)
    if json:
        for view in views:
            screen.as_json(view.as_short_json())
    elif views:
        job_lines.rows(view.as_json() for view in views)
    else:
        screen.say("No job is in this list." if hint is None else "No such job was found.")
        if status == Status.FINISHED:
            screen.say(
                "Done jobs are listed from the history, of the last 24 hours unless --since says "
                "more; `oncely find` finds each by its order, customer or reference.",
                to=screen.aside(),
            )
        # Not refused: a stack of another version may know more types than this command.
        if job_type and job_type not in (known := job_types()):
            screen.say(f"{job_type!r} is not one of {', '.join(known)}.", to=screen.aside())
    if hint is not None:
        screen.say(hint, to=screen.aside())


def _known(status: str | None) -> str | None:
    """A status that there is; said before AWS is asked anything."""
    if status is None or status in _LISTS:
        return status
    raise CommandError(f"There is no status {status!r}; there are {', '.join(_LISTS)}.", Exit.USAGE)


def pages(inspector: "Inspector", *, size: int = _PAGE, **wanted: object) -> "Iterator[Page]":
    """A list to its end, page by page."""
    cursor: str | None = None
    while True:
        page = inspector.page(cursor=cursor, limit=size, **wanted)  # type: ignore[arg-type]  # by name
        yield page
        if page.cursor is None:
            return
        cursor = page.cursor


def _taken(
    inspector: "Inspector", *, limit: int, **wanted: object
) -> "tuple[list[JobView], str | None]":
    """The jobs, and how to see the rest of them."""
    from oncely.services.inspect import MOST_LOOKED_AT, MOST_READ

    taken: list[JobView] = []
    # One more than is wanted tells whether there are more.
    size = min(limit + 1, _PAGE)
    looks = MOST_LOOKED_AT // MOST_READ
    for page in pages(inspector, size=size, **wanted):
        taken += page.jobs
        if len(taken) > limit:
            return taken[:limit], f"There are more: --limit {limit * 4}"
        # A page that is not full went past as many jobs of other types as it may.
        looks -= len(page.jobs) < size
        if looks == 0 and page.cursor is not None:
            stopped = f"Stopped after {MOST_LOOKED_AT:,} jobs of other types or states"
            return taken, f"{stopped}: narrow it with --since and --until."
    return taken, None
