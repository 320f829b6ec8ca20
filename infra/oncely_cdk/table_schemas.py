"""The schema of each table: its key, its indexes, TTL and stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncely.aws import dynamodb_due_index as due_index
from oncely.aws import dynamodb_job_index as job_finder
from oncely.aws import job_rows
from oncely.jobs.payment_charge import CHARGE_SHARD, REQUESTED_INDEX

JOBS: Final = "jobs"
TTL_ATTRIBUTE: Final = "expires_at"

DUE_INDEX: Final = due_index.INDEX


@dataclass(frozen=True, kw_only=True)
class KeySchema:
    """The key of a table or an index. All key attributes are strings."""

    partition: str
    sort: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes of the key."""
        return (self.partition,) if self.sort is None else (self.partition, self.sort)


@dataclass(frozen=True, kw_only=True)
class IndexSchema:
    """A secondary index, which projects the keys and the attributes in `include`."""

    name: str
    key: KeySchema
    include: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """The schema of a table."""

    key: KeySchema
    indexes: tuple[IndexSchema, ...] = ()
    has_stream: bool = False
    has_ttl: bool = False


TABLE_SCHEMAS: Final[Mapping[str, TableSchema]] = {
    JOBS: TableSchema(
        key=KeySchema(partition="job_key"),
        has_stream=True,
        has_ttl=True,
        indexes=(
            # Sparse: only rows with a due time are in it, so a sweep reads unresolved jobs only.
            IndexSchema(name=DUE_INDEX, key=KeySchema(partition=job_rows.DUE, sort="due_at")),
            # For searches; sparse as well. They return keys, and rows are read by key.
            IndexSchema(
                name=job_finder.BY_SUBJECT, key=KeySchema(partition="subject", sort="created_at")
            ),
            IndexSchema(
                name=job_finder.BY_CUSTOMER,
                key=KeySchema(partition="customer_id", sort="created_at"),
            ),
            IndexSchema(name=job_finder.BY_REFERENCE, key=KeySchema(partition="provider_ref")),
            # Jobs that need an operator. Jobs in progress are in the due index.
            IndexSchema(
                name=job_finder.ATTENTION_INDEX,
                key=KeySchema(partition=job_rows.ATTENTION, sort="since"),
            ),
        ),
    ),
    "orders": TableSchema(
        key=KeySchema(partition="order_id"),
        # Sparse: the transaction that ends the job removes charge_requested_at.
        indexes=(
            IndexSchema(
                name=REQUESTED_INDEX,
                key=KeySchema(partition=CHARGE_SHARD, sort="charge_requested_at"),
                include=("status",),
            ),
        ),
    ),
    "records": TableSchema(key=KeySchema(partition="record_id")),
    "import_events": TableSchema(key=KeySchema(partition="record_id", sort="event_id")),
}
