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
    here = deployed.place.options
    or_more = "+" if "needs_review" in counts.more else ""
    if waiting := counts.needs_review:
        many = f"{waiting:,}{or_more} jobs wait for a person"
        yield warning(
            "reviews",
            "a job waits for a person" if waiting == 1 and not or_more else many,
            f"oncely list --status needs_review{here}",
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
            f"oncely list --status in_progress{here}, then oncely reconcile KEY{here}",
        )
    else:
        yield ok(about, f"{ago(oldest, now=deployed.now)} old")
