"""The business tables of the shipped jobs."""

import zlib
from typing import Final

from oncely import Column, ColumnType, IndexSchema, KeySchema, TableSchema

# Orders whose charge was requested and is not done. The producer sets the partition attribute
# with `charge_requested_at`: a single partition would limit it to 500 requests a second.
REQUESTED_INDEX: Final = "charge_requested"
CHARGE_SHARD: Final = "charge_shard"
CHARGE_SHARDS: Final = 16

ORDERS: Final = TableSchema(
    name="orders",
    key=KeySchema(partition="order_id"),
    columns=(
        Column(name="order_id", required=True, description="the key of the table"),
        Column(
            name="customer_id",
            required=True,
            description="your customer; support agents search by it",
        ),
        Column(
            name="amount",
            type=ColumnType.NUMBER,
            required=True,
            description="what to charge, a whole number of minor units: 1250 is 12.50",
        ),
        Column(name="currency", required=True, description="three letters, such as `eur`"),
        Column(
            name="status",
            required=True,
            description="`payment_pending` until Oncely charges the order and sets "
            "`payment_processing`, `paid` or `payment_failed`. Each but `paid` can be charged",
        ),
        Column(
            name="payment_provider",
            description="its payment provider (default: `stripe`)",
        ),
        Column(name="payment_customer", required=True, description="the customer at the provider"),
        Column(
            name="payment_method", required=True, description="the payment method at the provider"
        ),
        Column(name="receipt_email", description="where the receipt goes (default: no receipt)"),
        Column(name="charge_id", description="the charge at the provider; set by Oncely"),
        Column(
            name="charge_requested_at",
            description="when the charge was requested, as UTC time in ISO format. Oncely removes "
            "it when the job ends",
        ),
        Column(name=CHARGE_SHARD, description='`"0"` to `"15"`, set with `charge_requested_at`'),
    ),
    # Sparse: the transaction that ends the job removes charge_requested_at from the order.
    indexes=(
        IndexSchema(
            name=REQUESTED_INDEX,
            key=KeySchema(partition=CHARGE_SHARD, sort="charge_requested_at"),
            include=("status",),
        ),
    ),
)
# The shop's permission to refund. No job writes it: a process that approves refunds does.
REFUND_REQUESTS: Final = TableSchema(
    name="refund_requests",
    key=KeySchema(partition="order_id", sort="refund_id"),
    columns=(
        Column(name="order_id", required=True, description="the order to refund"),
        Column(name="refund_id", required=True, description="your own id of the refund"),
        Column(
            name="amount",
            type=ColumnType.NUMBER,
            required=True,
            description="what to refund, a whole number of minor units: 1250 is 12.50",
        ),
        Column(name="currency", required=True, description="that of the order"),
        Column(
            name="requested_by",
            required=True,
            description="who requested or approved the refund, such as a staff id. It is shown "
            "with the job; email addresses and ARNs are masked there",
        ),
        Column(
            name="requested_at",
            required=True,
            description="when, as UTC time in ISO format. Nothing is refunded before that time",
        ),
    ),
)
# Our ledger of each charge's refunds. It limits them, so its rows do not expire.
REFUNDS: Final = TableSchema(name="refunds", key=KeySchema(partition="charge_id"))
# Only the tombstone of a contact that is gone expires, with the event that wrote it.
RECORDS: Final = TableSchema(name="records", key=KeySchema(partition="record_id"), has_ttl=True)
IMPORT_EVENTS: Final = TableSchema(
    name="import_events",
    key=KeySchema(partition="record_id", sort="event_id"),
    has_ttl=True,
    retention_days=400,
    erased_by_partition=True,
)


def charge_shard(order_id: str) -> str:
    """Return the `charge_shard` of an order. Any even spread over "0" to "15" works."""
    return str(zlib.crc32(order_id.encode()) % CHARGE_SHARDS)
