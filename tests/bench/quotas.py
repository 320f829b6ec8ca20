"""Quotas that limit the rate, each with its source."""

from typing import Final, NamedTuple


class Quota(NamedTuple):
    """A default quota of us-east-1, and who raises it."""

    value: float
    source: str


PARTITION_WRITES: Final = Quota(1_000, "DynamoDB: Best practices for partition keys (fixed)")
TABLE_WRITES: Final = Quota(40_000, "DynamoDB: Quotas, per table and per index (adjustable)")
NEW_TABLE_WRITES: Final = Quota(4_000, "DynamoDB: Pre-warming a table for on-demand capacity mode")
CONCURRENT_FUNCTIONS: Final = Quota(1_000, "Lambda: Quotas (adjustable)")
NEW_POLLERS_A_MINUTE: Final = Quota(
    300, "Lambda: Configuring scaling behavior for SQS event source mappings"
)
IN_FLIGHT: Final = Quota(120_000, "SQS: Standard queue quotas (adjustable)")
PUT_EVENTS: Final = Quota(10_000, "EventBridge: Quotas (adjustable)")
TRANSITIONS: Final = Quota(1_500, "Step Functions: Quotas, refill rate (adjustable)")
EXECUTIONS: Final = Quota(300, "Step Functions: Quotas, refill rate (adjustable)")
STRIPE_REQUESTS: Final = Quota(100, "Stripe: Rate limits, live mode (on request)")
STRIPE_ENDPOINT: Final = Quota(25, "Stripe: Rate limits, each endpoint (on request)")
HUBSPOT_REQUESTS: Final = Quota(
    19, "HubSpot: API usage guidelines, 190 in 10 seconds (paid add-on)"
)
