"""What each table looks like: its key, its indexes, and whether rows expire or are streamed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncely.adapters import due_index, job_rows
from oncely.contracts.payment_charge import REQUESTED_INDEX

JOBS: Final = "jobs"
TTL: Final = "expires_at"

# Indexes of the job table, by what they find.
DUE: Final = due_index.INDEX
BY_CUSTOMER: Final = "by_customer"
BY_REFERENCE: Final = "by_reference"
BY_STATUS: Final = "by_status"


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


# What a list of jobs shows; a whole row would be written again for each index.
_LISTED: Final = ("job_type", "status", "customer_id", "provider_ref", "created_at", "updated_at")


def _list(name: str, partition: str, sort: str = "updated_at") -> Index:
    key = Key(partition=partition, sort=sort)
    listed = tuple(attribute for attribute in _LISTED if attribute not in key.names)
    return Index(name=name, key=key, include=listed)


PLANS: Final[Mapping[str, Plan]] = {
    JOBS: Plan(
        key=Key(partition="job_key"),
        streams=True,
        expires=True,
        indexes=(
            # Sparse: a row without a due time is not in it, so a sweep reads unresolved jobs only.
            Index(
                name=DUE,
                key=Key(partition=job_rows.SHARD, sort="due_at"),
                include=("job_type", "status", "created_at"),
            ),
            _list(BY_CUSTOMER, "customer_id"),
            Index(
                name=BY_REFERENCE,
                key=Key(partition="provider_ref"),
                include=tuple(name for name in _LISTED if name != "provider_ref"),
            ),
            _list(BY_STATUS, "status"),
        ),
    ),
    "orders": Plan(
        key=Key(partition="order_id"),
        # Sparse: the ending transaction removes charge_requested_at.
        indexes=(
            Index(name=REQUESTED_INDEX, key=Key(partition="status", sort="charge_requested_at")),
        ),
    ),
    "records": Plan(key=Key(partition="record_id")),
    "import_events": Plan(key=Key(partition="record_id", sort="event_id")),
}
