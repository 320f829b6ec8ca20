"""The business tables of the shipped jobs."""

from typing import Final

from oncely import IndexSchema, KeySchema, TableSchema

# Orders whose charge was requested and is not done. The producer sets the partition attribute
# with `charge_requested_at`: a single partition would limit it to 500 requests a second.
REQUESTED_INDEX: Final = "charge_requested"
CHARGE_SHARD: Final = "charge_shard"

ORDERS: Final = TableSchema(
    name="orders",
    key=KeySchema(partition="order_id"),
    # Sparse: the transaction that ends the job removes charge_requested_at from the order.
    indexes=(
        IndexSchema(
            name=REQUESTED_INDEX,
            key=KeySchema(partition=CHARGE_SHARD, sort="charge_requested_at"),
            include=("status",),
        ),
    ),
)
RECORDS: Final = TableSchema(name="records", key=KeySchema(partition="record_id"))
IMPORT_EVENTS: Final = TableSchema(
    name="import_events", key=KeySchema(partition="record_id", sort="event_id")
)
