"""A job on the screen: a row of a list, its facts, its history."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ops_cli import screen

if TYPE_CHECKING:
    from rich.text import Text

View = Mapping[str, Any]  # a job as `--json` prints it

_STYLES: Final = {"done": "green", "failed": "red", "needs review": "bold red"}
_COLUMNS: Final = ("job", "status", "amount", "customer", "reference", "since (UTC)")
_FACTS: Final = {
    "amount": "amount_words",
    "customer": "customer_id",
    "about": "subject",
    "reference": "provider_ref",
    "request id": "request_id",
    "tries": "attempts",
    "last error": "last_error",
}
_TIMES: Final = {
    "since": "since",
    "created": "created_at",
    "last try": "last_try",
    "next look": "next_look",
    "kept until": "expires_at",
}


def status(view: View) -> "Text":
    """The plain word, in its colour; the exact status beside it where that says more."""
    words, exact = str(view["status_words"]), str(view["status"])
    said = f"{words} ({exact})" if words == "pending" else words
    return screen.plain(said, _STYLES.get(words, "yellow"))


def rows(views: Iterable[View]) -> None:
    """A list of jobs."""
    screen.table(
        _COLUMNS,
        (
            (
                view["job_key"],
                status(view),
                view.get("amount_words"),
                view.get("customer_id"),
                view.get("provider_ref"),
                time(view.get("since")),
            )
            for view in views
        ),
    )


def facts(view: View) -> None:
    """What is known of one job."""
    screen.say(view["job_key"], style="bold")
    screen.out().print(status(view), screen.plain(view["headline"], longest=1000), sep=": ")
    told = {label: view.get(name) for label, name in _FACTS.items()}
    told |= {label: time(view.get(name)) for label, name in _TIMES.items()}
    for label, value in told.items():
        if value not in (None, ""):
            screen.say(f"  {label:<11}", value)


def timeline(view: View) -> None:
    """What happened, the oldest first."""
    screen.table(
        ("time (UTC)", "who", "what", "why"),
        ((_when(line), line["who"], line["words"], line["reason"]) for line in view["timeline"]),
    )


def _when(line: View) -> str:
    at = time(line["at"])
    return (
        at
        if line.get("count", 1) == 1
        else f"{at} (x{line['count']}, last {time(line['last_at'])})"
    )


def time(text: object) -> str:
    """A time to the second; nobody reads microseconds."""
    return "" if text is None else str(text)[:19].replace("T", " ")
