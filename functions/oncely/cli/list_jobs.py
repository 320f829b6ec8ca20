"""`oncely list`: jobs by status, type and time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.cli import console as screen
from oncely.cli import job_output as job_lines
from oncely.cli.contracts import known_job_types
from oncely.cli.exits import CommandError, ExitCode
from oncely.cli.options import JsonOption, with_stack
from oncely.cli.stack_connection import StackConnection
from oncely.cli.time_arguments import parse_time_argument
from oncely.domain.lifecycle import Status

if TYPE_CHECKING:
    from oncely.operate.job_queries import JobPage, JobQueries
    from oncely.operate.job_view import JobView

_LIST_NAMES: Final = ("in_progress", *Status)
_PAGE_SIZE: Final = 100


def _complete_status(incomplete: str) -> list[str]:
    return [name for name in _LIST_NAMES if name.startswith(incomplete)]


@with_stack
def list_jobs(
    stack: StackConnection,
    *,
    status: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(_LIST_NAMES)} (default: needs_review, unknown and failed).",
            autocompletion=_complete_status,
        ),
    ] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="In this status (or due) since then: 24h (ago), or a date."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Until then.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many jobs.")] = 25,
    json: JsonOption = False,
) -> None:
    """List jobs, those that changed last first; in progress, the longest due first."""
    now = datetime.now(UTC)
    wanted = {
        "status": _validate_status(status),
        "job_type": job_type,
        "since": None if since is None else parse_time_argument(since, now=now),
        "until": None if until is None else parse_time_argument(until, now=now),
    }
    views, hint = _collect_jobs(stack.services(actor="command").job_queries, limit=limit, **wanted)
    if json:
        for view in views:
            screen.print_json(view.to_summary_json())
    elif views:
        job_lines.print_jobs(view.to_json() for view in views)
    else:
        screen.print_line("No job is in this list." if hint is None else "No such job was found.")
        if status == Status.FINISHED:
            screen.print_line(
                "Done jobs are listed from the history, of the last 24 hours unless --since says "
                "more; `oncely find` finds each by its order, customer or reference.",
                to=screen.stderr_console(),
            )
        # Not refused: a stack of another version may know more types than this command.
        if job_type and job_type not in (known := known_job_types()):
            screen.print_line(
                f"{job_type!r} is not one of {', '.join(known)}.", to=screen.stderr_console()
            )
    if hint is not None:
        screen.print_line(hint, to=screen.stderr_console())


def _validate_status(status: str | None) -> str | None:
    """A status that there is; said before AWS is asked anything."""
    if status is None or status in _LIST_NAMES:
        return status
    raise CommandError(
        f"There is no status {status!r}; there are {', '.join(_LIST_NAMES)}.", ExitCode.USAGE
    )


def iterate_pages(
    inspector: "JobQueries", *, size: int = _PAGE_SIZE, **wanted: object
) -> "Iterator[JobPage]":
    """A list to its end, page by page."""
    cursor: str | None = None
    while True:
        page = inspector.list_page(cursor=cursor, limit=size, **wanted)  # type: ignore[arg-type]  # by name
        yield page
        if page.cursor is None:
            return
        cursor = page.cursor


def _collect_jobs(
    inspector: "JobQueries", *, limit: int, **wanted: object
) -> "tuple[list[JobView], str | None]":
    """The jobs, and how to see the rest of them."""
    from oncely.operate.job_queries import MAX_ENTRIES_SCANNED, MAX_ROWS_READ

    taken: list[JobView] = []
    # One more than is wanted tells whether there are more.
    size = min(limit + 1, _PAGE_SIZE)
    looks = MAX_ENTRIES_SCANNED // MAX_ROWS_READ
    for page in iterate_pages(inspector, size=size, **wanted):
        taken += page.jobs
        for row in page.unreadable:
            screen.print_line(row.reason, to=screen.stderr_console())
        if len(taken) > limit:
            return taken[:limit], f"There are more: --limit {limit * 4}"
        # A page that is not full went past as many jobs of other types as it may.
        looks -= len(page.jobs) < size
        if looks == 0 and page.cursor is not None:
            stopped = f"Stopped after {MAX_ENTRIES_SCANNED:,} jobs of other types or states"
            return taken, f"{stopped}: narrow it with --since and --until."
    return taken, None
