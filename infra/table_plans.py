"""What each table looks like: its key, its indexes, and whether rows expire or are streamed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncely.adapters import due_index, job_finder, job_rows
from oncely.contracts.payment_charge import CHARGE_SHARD, REQUESTED_INDEX

JOBS: Final = "jobs"
TTL: Final = "expires_at"

DUE: Final = due_index.INDEX


@dataclass(frozen=True, kw_only=True)
class Key:
    """The key of a table or an index; every part of one is text."""

    partition: str
    sort: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes it is made of."""
        return (self.partition,) if self.sort is None else (self.partition, self.sort)


@dataclass(frozen=True, kw_only=True)
class Index:
    """A secondary index; besides keys it copies what `include` names."""

    name: str
    key: Key
    include: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a table looks like."""

    key: Key
    indexes: tuple[Index, ...] = ()
    streams: bool = False
    expires: bool = False


PLANS: Final[Mapping[str, Plan]] = {
    JOBS: Plan(
        key=Key(partition="job_key"),
        streams=True,
        expires=True,
        indexes=(
            # Sparse: a row without a due time is not in it, so a sweep reads unresolved jobs only.
            Index(name=DUE, key=Key(partition=job_rows.DUE, sort="due_at")),
            # What people ask by. Sparse as well; the rows themselves are read by their keys.
            Index(name=job_finder.BY_SUBJECT, key=Key(partition="subject", sort="created_at")),
            Index(name=job_finder.BY_CUSTOMER, key=Key(partition="customer_id", sort="created_at")),
            Index(name=job_finder.BY_REFERENCE, key=Key(partition="provider_ref")),
            # What operators act on; what is in progress is in the index of due rows.
            Index(
                name=job_finder.ATTENTION_INDEX,
                key=Key(partition=job_rows.ATTENTION, sort="since"),
            ),
        ),
    ),
    "orders": Plan(
        key=Key(partition="order_id"),
        # Sparse: the ending transaction removes charge_requested_at.
        indexes=(
            Index(
                name=REQUESTED_INDEX,
                key=Key(partition=CHARGE_SHARD, sort="charge_requested_at"),
                include=("status",),
            ),
        ),
    ),
    "records": Plan(key=Key(partition="record_id")),
    "import_events": Plan(key=Key(partition="record_id", sort="event_id")),
}
