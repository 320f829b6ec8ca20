"""`oncely find`, `show` and `list`: jobs with their details and timelines."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from oncely.alerts.headlines import plain_reason, sentence
from oncely.cli import console
from oncely.cli.contracts import known_job_types
from oncely.cli.errors import CommandError, usage_error
from oncely.cli.options import JobTypeOption, JsonOption, time_option, with_stack
from oncely.cli.stack_connection import StackConnection
from oncely.core.lifecycle import Status
from oncely.core.text import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.text import Text

    from oncely.operate.job_lists import JobFilter
    from oncely.operate.job_queries import JobPage, JobQueries, SearchResults
    from oncely.operate.job_view import JobView
    from oncely.operate.repair_request import LookupAnswer

JobJson = Mapping[str, Any]  # a job as `--json` prints it

_STYLES: Final = {"done": "green", "failed": "red", "needs review": "bold red"}
_COLUMNS: Final = ("job", "status", "amount", "customer", "reference", "since (UTC)")
_DETAILS: Final = {
    "amount": "amount_label",
    "customer": "customer_id",
    "subject": "subject",
    "reference": "provider_ref",
    "provider page": "provider_url",
    "request id": "request_id",
}
_TIMES: Final = {
    "created": "created_at",
    "last claim": "claimed_at",
    "next check": "next_check_at",
    "expires": "expires_at",
}


def format_status(view: JobJson) -> "Text":
    """Return the status label in its color, with the exact status if it says more."""
    words, exact = str(view["status_label"]), str(view["status"])
    text = f"{words} ({exact})" if words == "pending" else words
    return console.safe_text(text, _STYLES.get(words, "yellow"))


def print_jobs(views: Iterable[JobJson]) -> None:
    """Print a list of jobs."""
    console.print_table(
        _COLUMNS,
        (
            (
                view["job_key"],
                format_status(view),
                view.get("amount_label"),
                view.get("customer_id"),
                view.get("provider_ref"),
                format_time(view.get("since")),
            )
            for view in views
        ),
    )


def print_heading(view: JobJson) -> None:
    """Print the key of a job, its status, one sentence and the next step."""
    console.print_line(view["job_key"], style="bold")
    since = f" since {format_time(view['since'], with_age=True)}" if view.get("since") else ""
    console.stdout_console().print(format_status(view), since, sep="")
    console.print_line(view["headline"])
    if view["next_step"]:
        console.print_line(f"Next: {view['next_step']}")


def print_details(view: JobJson) -> None:
    """Print one job: its heading and its fields."""
    print_heading(view)
    details = {label: view.get(name) for label, name in _DETAILS.items()}
    # The headline says the rest.
    raw = view.get("last_error") or ""
    details["details"] = raw if plain_reason(raw) != raw else None
    runs, attempts = view.get("runs"), view.get("attempts")
    details["runs"] = runs and f"{runs} ({attempts} may have called the provider)"
    details |= {label: format_time(view.get(name), with_age=True) for label, name in _TIMES.items()}
    console.print_pairs(
        (label, value) for label, value in details.items() if value not in {None, "", 0}
    )


def print_timeline(view: JobJson) -> None:
    """Print the timeline of one job, oldest entry first."""
    console.print_line("Timeline (UTC)", style="bold")
    console.print_pairs(
        (format_time(line["at"]), tuple(filter(None, (_describe(line), line["reason"]))))
        for line in view["timeline"]
    )
    if error := view.get("timeline_error"):
        console.print_line(sentence(error), style="yellow")


def _describe(line: JobJson) -> str:
    """What happened, and by whom. Equal entries are one, with how often it was."""
    times = line.get("count", 1)
    last = "" if times == 1 else f", {times} times, last {format_time(line['last_at'])}"
    return f"{line['event_label']} ({line['actor']}{last})"


def format_time(text: object, *, with_age: bool = False) -> str:
    """Return a time to the second, or with its zone and how long ago that is."""
    if text is None:
        return ""
    plain = str(text)[:19].replace("T", " ")
    if not with_age:
        return plain
    try:
        return f"{plain} UTC ({console.format_age(parse_time(text), datetime.now(UTC))})"
    except ValueError:  # a row that was edited by hand
        return plain


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
        found = stack.app.provider_queries.search(text)
    if json:
        console.print_json(found.to_json())
    elif found.jobs:
        _print_found(found, stack.app.provider_queries.look_up if lookup else None)
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
    print_jobs(view.to_json() for view in views)
    for view in [one for one in views if one.takes_money or not grouped][:_MAX_TIMELINES]:
        console.print_line("")
        print_heading(view.to_json())
        print_timeline(view.to_json())


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
    print_details(shown)
    console.print_line("")
    print_timeline(shown)
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
    from oncely.operate.job_lists import JobFilter

    wanted = JobFilter(status=_validate_status(status), job_type=job_type, since=since, until=until)
    views, hint = _collect_jobs(stack.app.job_queries, wanted, limit=limit)
    if json:
        for view in views:
            console.print_json(view.to_summary_json())
    elif views:
        print_jobs(view.to_json() for view in views)
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
    queries: "JobQueries", wanted: "JobFilter", *, size: int = _PAGE_SIZE
) -> "Iterator[JobPage]":
    """Yield every page of a list."""
    cursor: str | None = None
    while True:
        page = queries.list_page(wanted, cursor=cursor, limit=size)
        yield page
        if (cursor := page.cursor) is None:
            return


def _collect_jobs(
    queries: "JobQueries", wanted: "JobFilter", *, limit: int
) -> "tuple[list[JobView], str | None]":
    from oncely.operate.job_queries import MAX_ENTRIES_SCANNED, MAX_ROWS_READ

    taken: list[JobView] = []
    # One more than wanted shows whether there are more.
    size = min(limit + 1, _PAGE_SIZE)
    scans = MAX_ENTRIES_SCANNED // MAX_ROWS_READ
    for page in iterate_pages(queries, wanted, size=size):
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
