"""Whether jobs wait for someone."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from ops_cli.checkup.deployed import Deployed
from ops_cli.checkup.findings import Finding, ok, warning
from ops_cli.moments import ago

# As the alarm on the oldest unresolved job.
_TOO_LONG: Final = timedelta(minutes=30)


def jobs(deployed: Deployed) -> Iterator[Finding]:
    """Those that a person must decide, and the one without an outcome for the longest time."""
    counts = deployed.place.desk(actor="doctor").inspector.counts()
    or_more = "+" if "needs_review" in counts.more else ""
    if counts.needs_review:
        yield warning(
            "reviews",
            f"{counts.needs_review:,}{or_more} jobs wait for a person",
            "oncely list --status needs_review",
        )
    else:
        yield ok("reviews", "no job waits for a person")
    oldest, about = counts.oldest_unresolved_at, "oldest unresolved job"
    if oldest is None:
        yield ok(about, "none")
    elif deployed.now - oldest > _TOO_LONG:
        yield warning(
            about,
            f"without an outcome for {ago(oldest, now=deployed.now)}",
            "oncely list --status in_progress, then oncely reconcile KEY",
        )
    else:
        yield ok(about, f"{ago(oldest, now=deployed.now)} old")
