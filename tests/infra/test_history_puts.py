"""The number of objects that the history writes, from the template's batch settings."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.history.sources import batch_name, lines_of_records
from oncely.jobs.shipped import SHIPPED_JOBS
from tests.infra.assembly import Assembly
from tests.support.stream import FakeS3, finish_job, stream_record
from tests.unit.samples import NOW, make_job

# Lambda's limit for a batch, counted as JSON.
MAX_PAYLOAD = 6 * 1024 * 1024
# A new on-demand table has four partitions, so its stream has four shards.
SHARDS = 4
JOBS_A_SECOND = 100
TYPES = tuple(kind.job_type for kind in SHIPPED_JOBS)


def test_history_writes_at_most_one_object_per_fifty_jobs(prod: Assembly) -> None:
    """One shard's share of a window, with every shipped type in it: the worst mix."""
    stream = prod.properties("AWS::Lambda::EventSourceMapping")["History/Write/Stream"]
    jobs = JOBS_A_SECOND * stream["MaximumBatchingWindowInSeconds"] // SHARDS
    records = [change for number in range(jobs) for change in job_records(number)]
    s3 = FakeS3()
    writer = s3.writer()

    for batch in batches(records, max_records=stream["BatchSize"]):
        name = batch_name(batch, generation="table")
        writer.write(lines_of_records(batch, generation="table"), batch=name)

    assert s3.puts / jobs <= 0.02, f"{s3.puts} objects for {jobs} jobs"
    assert len([line for line in s3.lines() if line.status == "finished"]) == jobs


def job_records(number: int) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(
        records_of_type(TYPES[number % len(TYPES)]).replace("00000000", f"{number:08d}")
    )
    return records


@cache
def records_of_type(job_type: str) -> str:
    """The records of job 00000000, as JSON: the others differ in its number only."""
    key = JobKey(f"{job_type}:order_00000000")
    asked = make_job(status=Status.READY, job_key=key, job_type=job_type, fence=0, attempts=0)
    taken = replace(asked, status=Status.STARTED, fence=1, version=2, deployment="d" * 16)
    kept = taken.apply(
        Event.CHECKPOINT, now=NOW, actor="worker", reason="created", provider_ref="pi_" + "3" * 24
    )
    done = finish_job(kept)
    rows = [None, asked, taken, kept, done, replace(done, due_at=None, version=done.version + 1)]
    return json.dumps([stream_record(old, new) for old, new in pairwise(rows)])


def batches(records: list[dict[str, Any]], *, max_records: int) -> Iterator[list[dict[str, Any]]]:
    """Split records as Lambda does, by number and by size. The caller chooses the window."""
    # The rest differs in digits only.
    largest = max(len(json.dumps(one)) for one in records[: 5 * len(TYPES)])
    size = min(max_records, MAX_PAYLOAD // largest)
    for first in range(0, len(records), size):
        yield records[first : first + size]
