"""The list of finished jobs in memory."""

from dataclasses import dataclass
from datetime import datetime

from oncely.search_ports import JobListEntry
from oncely.testing.memory import MemoryJobStore


@dataclass
class MemoryFinishedJobs:
    """The finished jobs of a memory store, as the history lists them."""

    store: MemoryJobStore

    def recent(
        self, *, since: datetime, until: datetime, job_type: str | None, limit: int
    ) -> list[JobListEntry]:
        entries = [
            JobListEntry(job.job_key, job.status_since)
            for job in self.store.jobs.values()
            if job.status.is_finished
            and job_type in {None, job.job_type}
            and since <= job.status_since <= until
        ]
        return sorted(entries, key=lambda one: one.at, reverse=True)[:limit]
