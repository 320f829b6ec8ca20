"""Whether jobs wait for someone."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from oncely.cli.checkup.deployed import DeployedStack
from oncely.cli.checkup.findings import Finding, passed, warned
from oncely.cli.time_arguments import format_age

# As the alarm on the oldest unresolved job.
_MAX_UNRESOLVED_AGE: Final = timedelta(minutes=30)


def check_jobs(deployed: DeployedStack) -> Iterator[Finding]:
    """Those that a person must decide, and the one without an outcome for the longest time."""
    counts = deployed.connection.services(actor="doctor").job_queries.counts()
    here = deployed.connection.cli_options
    or_more = "+" if "needs_review" in counts.truncated else ""
    if waiting := counts.needs_review:
        many = f"{waiting:,}{or_more} jobs wait for a person"
        yield warned(
            "reviews",
            "a job waits for a person" if waiting == 1 and not or_more else many,
            f"oncely list --status needs_review{here}",
        )
    else:
        yield passed("reviews", "no job waits for a person")
    oldest, check = counts.oldest_unresolved_at, "oldest unresolved job"
    if oldest is None:
        yield passed(check, "none")
    elif deployed.now - oldest > _MAX_UNRESOLVED_AGE:
        yield warned(
            check,
            f"without an outcome for {format_age(oldest, now=deployed.now)}",
            f"oncely list --status in_progress{here}, then oncely reconcile KEY{here}",
        )
    else:
        yield passed(check, f"{format_age(oldest, now=deployed.now)} old")
