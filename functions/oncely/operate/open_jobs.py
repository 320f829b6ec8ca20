"""Open jobs: their keys, and the check that no deployment removes the job type of one."""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Final

from oncely.core.due import DueAction
from oncely.core.errors import OncelyError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import IN_REVIEW
from oncely.operate.job_index import JobIndex
from oncely.reconcile.due_index import DueIndex

_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)


class OpenJobsError(OncelyError):
    """A job type was removed while some of its jobs are open."""


def open_job_keys(due_index: DueIndex, job_index: JobIndex) -> Iterator[JobKey]:
    """Yield the jobs that are in progress, need review, or have something to publish."""
    for action in DueAction:
        for shard in range(due_index.shards):
            due = due_index.due(action, shard, since=None, until=_END_OF_TIME)
            yield from (one.job_key for one in due)
    yield from (one.job_key for one in job_index.by_status(tuple(IN_REVIEW)))


def refuse_open_jobs(removed: Collection[str], *, due_index: DueIndex, job_index: JobIndex) -> None:
    """Raise OpenJobsError if a job of these types is open: no worker would run it."""
    if not removed:
        return
    for key in open_job_keys(due_index, job_index):
        if (job_type := key.partition(":")[0]) in removed:
            raise OpenJobsError(
                f"{job_type} is no longer deployed, but {key} is still open. Keep the job type "
                "until its jobs have ended, or name it in retired_job_types of the stage's file: "
                "its open jobs then need review, and an operator closes them"
            )
