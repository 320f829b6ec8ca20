"""Prints jobs: as rows of a list, with their details, and with their timeline."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from oncely.cli import console

if TYPE_CHECKING:
    from rich.text import Text

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
    "attempts": "attempts",
    "last error": "last_error",
}
_TIMES: Final = {
    "since": "since",
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


def print_details(view: JobJson) -> None:
    """Print the fields of one job."""
    console.print_line(view["job_key"], style="bold")
    console.stdout_console().print(
        format_status(view), console.safe_text(view["headline"], max_length=1000), sep=": "
    )
    details = {label: view.get(name) for label, name in _DETAILS.items()}
    details |= {label: format_time(view.get(name)) for label, name in _TIMES.items()}
    for label, value in details.items():
        if value not in (None, ""):
            console.print_line(f"  {label:<12}", value)


def print_timeline(view: JobJson) -> None:
    """Print the timeline of one job, oldest entry first."""
    console.print_table(
        ("time (UTC)", "actor", "event", "reason"),
        (
            (_format_when(line), line["actor"], line["event_label"], line["reason"])
            for line in view["timeline"]
        ),
    )


def _format_when(line: JobJson) -> str:
    at = format_time(line["at"])
    if line.get("count", 1) == 1:
        return at
    return f"{at} (x{line['count']}, last {format_time(line['last_at'])})"


def format_time(text: object) -> str:
    """Return a time to the second."""
    return "" if text is None else str(text)[:19].replace("T", " ")
