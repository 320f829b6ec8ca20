"""Finds the former run of a key whose row has expired: a replay is answered, not run."""

from oncely.domain.former import may_have_run
from oncely.domain.jobs import Job
from oncely.domain.profiles import Terms
from oncely.ports import Archive


def former_run(archive: Archive, job: Job, terms: Terms) -> Job | None:
    """The archived job, if there is one that still stands."""
    return archive.find(job.job_key) if may_have_run(job, terms) else None
