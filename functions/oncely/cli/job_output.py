"""Prints jobs: as rows of a list, with their details, and with their timeline."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from oncely.alerts.headlines import plain_reason, sentence
from oncely.cli import console
from oncely.core.text import parse_time

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
        return f"{plain} UTC ({_format_age(parse_time(text), datetime.now(UTC))})"
    except ValueError:  # a row that was edited by hand
        return plain


def _format_age(at: datetime, now: datetime) -> str:
    """Format how long ago a time was, or how far ahead: "4 min ago", "in 2 h"."""
    minutes = abs(now - at).total_seconds() / 60
    if minutes < 1:
        return "now"
    if minutes < 60:  # noqa: PLR2004  # an hour
        text = f"{minutes:.0f} min"
    elif minutes < 48 * 60:
        text = f"{minutes / 60:.0f} h"
    else:
        text = f"{minutes / 1440:.0f} days"
    return f"{text} ago" if at <= now else f"in {text}"
