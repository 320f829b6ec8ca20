"""The state of AWS in memory as tests read and edit it, past the shipped adapters."""

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final, cast

from oncely.aws.objects import S3Objects
from oncely.contracts.job import AnyJob
from oncely.core.due import DUE_SHARDS
from oncely.core.effect_outcomes import BusinessWrite
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.store import JobStore, Swapped, SwapResult
from oncely.history.erasure_log import ErasureLog
from oncely.operate.bulk_repairer import BulkRuns
from oncely.operate.own_tables import GATES, JOBS
from oncely.operate.rejects import RejectArchive
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.dynamodb import Item, MemoryDynamo
from oncely.testing.memory_aws.services import MemoryBucket, Now
from oncely.testing.rows import BusinessRows, JobRows
from tests.support.fakes import START
from tests.support.table_schemas import TABLE_SCHEMAS

ARCHIVE: Final = "archive"


def new_account(now: Now = lambda: START, contracts: Iterable[type[AnyJob]] = ()) -> MemoryAws:
    """An account with an archive, and with the tables of the shipped jobs and these contracts."""
    schemas = {
        schema.name: schema
        for contract in contracts
        for schema in contract.all_tables()
        if not isinstance(schema, str)
    }
    aws = MemoryAws(now=now, tables={**schemas, **TABLE_SCHEMAS})
    aws.s3.buckets[ARCHIVE] = MemoryBucket(versioned=True)
    return aws


class StoredRows(BusinessRows):
    """The business rows of an account."""

    def __init__(self, dynamo: MemoryDynamo) -> None:
        super().__init__(dynamo, (JOBS, GATES))

    def delete(self, table: str, key: Mapping[str, str]) -> None:
        del self._dynamo.tables[table][tuple(key.values())]

    def clear(self) -> None:
        for name, items in self._dynamo.tables.items():
            if name not in self._own:
                items.clear()


class StoredJobs(MutableMapping[JobKey, JobRow]):
    """The job rows of an account that can be read. Setting one writes the row as it is."""

    def __init__(self, dynamo: MemoryDynamo) -> None:
        self._items, self._rows = dynamo.tables[JOBS], JobRows(dynamo, JOBS)

    def __getitem__(self, key: JobKey) -> JobRow:
        if (job := self._rows.get(key)) is None:
            raise KeyError(key)
        return job

    def __setitem__(self, key: JobKey, job: JobRow) -> None:
        assert key == job.job_key
        self._rows.put(job, due_shards=DUE_SHARDS)

    def __delitem__(self, key: JobKey) -> None:
        del self._items[key,]

    def __iter__(self) -> Iterator[JobKey]:
        return iter(self._rows.all())

    def __len__(self) -> int:
        return len(self._rows.all())

    def __repr__(self) -> str:
        return repr(self._rows.all())


class InspectableStore(JobStore):
    """The shipped store over DynamoDB in memory, whose rows a test sees and edits."""

    def __init__(self, aws: MemoryAws | None = None) -> None:
        aws = aws or new_account()
        super().__init__(
            client=cast("Any", aws.dynamodb),
            table=JOBS,
            tables={name: name for name in aws.dynamodb.tables},
            sleep=lambda _: None,
        )
        self.aws = aws

    @cached_property
    def jobs(self) -> StoredJobs:
        return StoredJobs(self.aws.dynamodb)

    @cached_property
    def business_rows(self) -> StoredRows:
        return StoredRows(self.aws.dynamodb)

    def swap(
        self, before: JobRow, after: JobRow, *, business_writes: Sequence[BusinessWrite] = ()
    ) -> SwapResult:
        """Write as deployed, and fail the test of a service that made up the row it saw."""
        row = self.jobs.get(before.job_key)
        result = super().swap(before, after, business_writes=business_writes)
        if row is not None and row.version == before.version and isinstance(result, Swapped):
            assert row == before, "not the stored row"
        return result

    def expire(self, key: JobKey) -> None:
        """Remove a row as TTL does."""
        del self.jobs[key]

    def make_unreadable(self, key: JobKey) -> None:
        """Edit a row by hand, so that no version can read it."""
        items = self.aws.dynamodb.tables[JOBS]
        items[key,] = Item({**items[key,], "created_at": {"S": "yesterday"}})


class StoredBulkRuns(BulkRuns):
    """The shipped bulk runs, and what they saved."""

    @property
    def saved(self) -> dict[str, str]:
        """The runs by their id, as JSON."""
        objects = _objects(self.objects, "bulk/")
        return {name.removesuffix(".json"): body for name, body in objects.items()}


class StoredRejects(RejectArchive):
    """The shipped rejects in the archive, and who resent them."""

    def add(self, name: str, body: str, *, at: datetime = START, job_key: str = "") -> None:
        """Add a reject that was written then."""
        reject = {"body": body, "reason": "amount is text", "queue": "payments"}
        named = {"job_key": job_key} if job_key else {}
        client: Any = self.objects.client  # in memory
        now, client.now = client.now, lambda: at
        self.save_reject(name.rpartition("/")[2], reject | named, at=at)
        client.now = now

    @property
    def resends(self) -> dict[str, str]:
        """The operators by the names of what they resent."""
        return _objects(self.objects, "rejects/resent/")


class StoredErasureLog(ErasureLog):
    """The shipped erasure log, and what it recorded."""

    @property
    def entries(self) -> dict[str, str]:
        return _objects(self.objects, "erasures/jobs/")

    @property
    def runs(self) -> list[Mapping[str, Any]]:
        return [json.loads(body) for body in _objects(self.objects, "erasures/audit/").values()]


def _objects(archive: S3Objects, prefix: str) -> dict[str, str]:
    client: Any = archive.client  # in memory
    objects = client.buckets[ARCHIVE].objects
    return {
        name.removeprefix(prefix): versions[-1].body.decode()
        for name, versions in objects.items()
        if name.startswith(prefix)
    }
