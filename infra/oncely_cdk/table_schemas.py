"""What each table looks like: its key, its indexes, and whether rows expire or are streamed."""

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
    """The key of a table or an index; every part of one is text."""

    partition: str
    sort: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes it is made of."""
        return (self.partition,) if self.sort is None else (self.partition, self.sort)


@dataclass(frozen=True, kw_only=True)
class IndexSchema:
    """A secondary index; besides keys it copies what `include` names."""

    name: str
    key: KeySchema
    include: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """What a table looks like."""

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
            # Sparse: a row without a due time is not in it, so a sweep reads unresolved jobs only.
            IndexSchema(name=DUE_INDEX, key=KeySchema(partition=job_rows.DUE, sort="due_at")),
            # What people ask by. Sparse as well; the rows themselves are read by their keys.
            IndexSchema(
                name=job_finder.BY_SUBJECT, key=KeySchema(partition="subject", sort="created_at")
            ),
            IndexSchema(
                name=job_finder.BY_CUSTOMER,
                key=KeySchema(partition="customer_id", sort="created_at"),
            ),
            IndexSchema(name=job_finder.BY_REFERENCE, key=KeySchema(partition="provider_ref")),
            # What operators act on; what is in progress is in the index of due rows.
            IndexSchema(
                name=job_finder.ATTENTION_INDEX,
                key=KeySchema(partition=job_rows.ATTENTION, sort="since"),
            ),
        ),
    ),
    "orders": TableSchema(
        key=KeySchema(partition="order_id"),
        # Sparse: the ending transaction removes charge_requested_at.
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
