"""The access log: who saw which job and who searched for what, including refused requests."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from oncely.handlers.telemetry import telemetry
from oncely.operate.job_queries import JobPage, SearchResults
from oncely.operate.job_view import JobView

# The message of each line. The queries in docs/privacy-and-security.md select by it.
ACCESS: Final = "access"


@dataclass(frozen=True)
class ShownJob:
    """A job that a response contains."""

    job_key: str
    customer_id: str | None = None

    @classmethod
    def from_view(cls, view: JobView) -> "ShownJob":
        return cls(view.job.job_key, view.job.customer_id)


def shown_jobs(found: JobPage | SearchResults) -> tuple[ShownJob, ...]:
    """The jobs of a list or a search, including those whose row cannot be read."""
    readable = map(ShownJob.from_view, found.jobs)
    return (*readable, *(ShownJob(row.job_key) for row in found.unreadable))


def access_fields(
    jobs: Sequence[ShownJob], digest: Callable[[str], str]
) -> Iterator[dict[str, Any]]:
    """The fields of each shown job, or one set without any."""
    for job in jobs:
        customer = {"customer_digest": digest(job.customer_id)} if job.customer_id else {}
        yield {"job_key": job.job_key, **customer}
    if not jobs:
        yield {}


def log_access(
    jobs: Sequence[dict[str, Any]], *, actor: str | None, route: str, status: int, text: str
) -> None:
    """Write one line for each shown job, or one if there is none. `text` is a digest."""
    typed = {"text_digest": text} if text else {}
    for job in jobs:
        fields = {"actor": actor, "route": route, "status": status, **typed, **job}
        telemetry().logger.info(ACCESS, extra=fields)
