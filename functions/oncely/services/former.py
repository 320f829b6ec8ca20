"""Finds the former run of a key whose row has expired: a replay is answered, not run."""

from oncely.domain.jobs import Job
from oncely.domain.profiles import Safety, Terms
from oncely.ports import Archive


def former_run(archive: Archive, job: Job, terms: Terms) -> Job | None:
    """The archived job, if there is one that still stands; a natural effect need not look."""
    if job.beyond_archive or terms.safety is Safety.NATURAL:
        return None
    return archive.find(job.job_key)
