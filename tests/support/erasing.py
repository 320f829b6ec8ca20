"""A stack on a real engine whose archive has versions, for erasures."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import boto3

from oncely.app import App
from oncely.aws.objects import S3Objects
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.history.archive import HistoryArchive
from oncely.history.erasure_log import ARCHIVER_TIMEOUT, ErasureLog, Person
from oncely.history.sources import RowScan, batch_name, lines_of_records
from oncely.operate.erase import ErasableArchive, Erasure
from oncely.operate.rejects import RejectArchive
from oncely.reconcile.due_index import DueIndex
from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack
from tests.support.stream import stream_record


def s3_client(url: str) -> Any:  # noqa: ANN401  # boto3's
    keys: Any = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)


def new_bucket(client: Any, *, versioned: bool = True) -> str:  # noqa: ANN401  # boto3's
    bucket = f"archive-{uuid4().hex[:12]}"
    client.create_bucket(Bucket=bucket)
    if versioned:
        enabled = {"Status": "Enabled"}
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=enabled)
    return bucket


def object_versions(client: Any, bucket: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401  # boto3's
    """Every version of every object, decompressed."""
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for one in page.get("Versions", []):
            version = {"Key": one["Key"], "VersionId": one["VersionId"]}
            body = client.get_object(Bucket=bucket, **version)["Body"].read()
            is_gzip = one["Key"].endswith(".gz")
            yield one["Key"], (gzip.decompress(body) if is_gzip else body).decode()


@dataclass
class ErasableStack:
    """The shipped services over DynamoDB and S3, with providers in memory."""

    dynamo: DynamoFixture
    s3: Any
    bucket: str
    seen: dict[JobKey, JobRow] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)  # queued in the stream

    def __post_init__(self) -> None:
        self.world = InMemoryStack(store=self.dynamo.store(), rows=self.dynamo.rows())
        self.rejects = RejectArchive(S3Objects(self.s3, self.bucket))

    @property
    def app(self) -> App:
        objects, dynamo = S3Objects(self.s3, self.bucket), self.dynamo
        return self.world.app(
            job_index=dynamo.finder(),
            due_index=DueIndex(dynamo.client, dynamo.jobs_table),
            row_scan=RowScan(dynamo.client, dynamo.jobs_table),
            history=HistoryArchive(objects),
            erasure_log=ErasureLog(objects),
            erasable_archive=ErasableArchive(objects),
        )

    def run(self, message: dict[str, object]) -> Any:  # noqa: ANN401  # an outcome
        outcome = self.world.run(message)
        self.queue_changes()
        return outcome

    def publish(self) -> list[str]:
        """Publish every ended job, and return the follow-ups that were sent."""
        publisher = self.world.publisher(event_bus=self.world.bus)
        for job in list(self.jobs().values()):
            publisher.publish(job.job_key)
        self.queue_changes()
        sent, self.world.outbox.sent = self.world.outbox.sent, []
        return sent

    def jobs(self) -> dict[JobKey, JobRow]:
        pages = RowScan(self.dynamo.admin, self.dynamo.jobs_table).pages()
        return {job.job_key: job for page in pages for job in page.jobs}

    def queue_changes(self) -> None:
        """Add what changed since to the stream."""
        now = self.jobs()
        for key, job in now.items():
            if job != (old := self.seen.get(key)):
                number = len(self.records) + len(self.seen) * 1000
                at = self.world.clock.now()
                self.records.append(stream_record(old, job, number=number, at=at))
        self.seen = now

    def archive(self) -> None:
        """Write what is queued in the stream, twice: a retry leaves an older version."""
        if not self.records:
            return
        name = batch_name(self.records, generation="table-1")
        for _ in range(2):
            self.app.history_writer.write(
                lines_of_records(self.records, generation="table-1"), batch=name
            )
        self.records = []

    def erase(self, person: Person, *, dry_run: bool = False) -> Erasure:
        eraser = self.app.eraser
        done = eraser.erase_tables(person, actor="ada", dry_run=dry_run)
        if not dry_run:
            self.queue_changes()
            if (ready_at := eraser.archive_ready_at()) is not None:
                assert ready_at - self.world.clock.now() >= ARCHIVER_TIMEOUT
                self.world.clock.time = ready_at
        return eraser.erase_archive(person, done, actor="ada", dry_run=dry_run)

    def contents(self) -> Iterator[tuple[str, str]]:
        """Every row of every table, and every version of every object, as text."""
        for short, table in {"jobs": self.dynamo.jobs_table, **self.dynamo.tables}.items():
            for page in self.dynamo.admin.get_paginator("scan").paginate(TableName=table):
                yield from ((short, json.dumps(row, ensure_ascii=False)) for row in page["Items"])
        yield from object_versions(self.s3, self.bucket)

    def places_of(self, *marks: str) -> set[str]:
        return {place for place, text in self.contents() if any(mark in text for mark in marks)}
