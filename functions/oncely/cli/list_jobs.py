"""`oncely list`: jobs by status, type and time."""

from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.cli import console, job_output
from oncely.cli.contracts import known_job_types
from oncely.cli.errors import usage_error
from oncely.cli.options import JobTypeOption, JsonOption, time_option, with_stack
from oncely.cli.stack_connection import StackConnection
from oncely.core.lifecycle import Status

if TYPE_CHECKING:
    from oncely.operate.job_queries import JobPage, JobQueries
    from oncely.operate.job_view import JobView

_LIST_NAMES: Final = ("in_progress", *Status)
_FROM_HISTORY: Final = [status for status in Status if status.is_finished]
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
    job_type: JobTypeOption = None,
    since: Annotated[
        datetime | None,
        time_option(
            help="Only jobs that entered this status (or are due) after this time: "
            "a duration (24h) or a date."
        ),
    ] = None,
    until: Annotated[datetime | None, time_option(help="The same, before this time.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of jobs to show.")] = 25,
    json: JsonOption = False,
) -> None:
    """List jobs, most recently changed first.

    With `--status in_progress`, longest due first.

    Examples:
    - `oncely list --status needs_review`
    - `oncely list --type payment.charge --since 24h --limit 100 --json`
    """
    views, hint = _collect_jobs(
        stack.app.job_queries,
        limit=limit,
        status=_validate_status(status),
        job_type=job_type,
        since=since,
        until=until,
    )
    if json:
        for view in views:
            console.print_json(view.to_summary_json())
    elif views:
        job_output.print_jobs(view.to_json() for view in views)
    else:
        console.print_line("No jobs match." if hint is None else "No matches yet.")
        if status in _FROM_HISTORY:
            console.print_line(
                "Finished jobs are listed from the history, by default of the last 24 hours. Pass "
                "--since for more, or use `oncely find` with an order, customer or reference.",
                to=console.stderr_console(),
            )
        # Not an error: a stack of another version may have other job types.
        if job_type and job_type not in (known := known_job_types()):
            console.print_line(
                f"Unknown job type {job_type!r}. Known: {', '.join(known)}.",
                to=console.stderr_console(),
            )
    if hint is not None:
        console.print_line(hint, to=console.stderr_console())


def _validate_status(status: str | None) -> str | None:
    from oncely.operate.job_lists import LIST_WORDS, list_name

    if status is None or (name := list_name(status)) is not None:
        return None if status is None else name
    near = get_close_matches(status.lower(), LIST_WORDS, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise usage_error(f"Unknown status {status!r}.{hint} Valid: {', '.join(LIST_WORDS)}.")


def iterate_pages(
    queries: "JobQueries", *, size: int = _PAGE_SIZE, **wanted: object
) -> "Iterator[JobPage]":
    """Yield every page of a list."""
    cursor: str | None = None
    while True:
        page = queries.list_page(cursor=cursor, limit=size, **wanted)  # type: ignore[arg-type]  # by name
        yield page
        if (cursor := page.cursor) is None:
            return


def _collect_jobs(
    queries: "JobQueries", *, limit: int, **wanted: object
) -> "tuple[list[JobView], str | None]":
    from oncely.operate.job_queries import MAX_ENTRIES_SCANNED, MAX_ROWS_READ

    taken: list[JobView] = []
    # One more than wanted shows whether there are more.
    size = min(limit + 1, _PAGE_SIZE)
    scans = MAX_ENTRIES_SCANNED // MAX_ROWS_READ
    for page in iterate_pages(queries, size=size, **wanted):
        taken += page.jobs
        for row in page.unreadable:
            console.print_line(row.reason, to=console.stderr_console())
        if len(taken) > limit:
            return taken[:limit], f"More jobs match. Pass --limit {limit * 4} to see them."
        # A short page means that the scan limit was reached.
        scans -= len(page.jobs) < size
        if scans == 0 and page.cursor is not None:
            return taken, (
                f"Stopped after {MAX_ENTRIES_SCANNED:,} jobs that do not match. "
                "Narrow the search with --since and --until."
            )
    return taken, None
