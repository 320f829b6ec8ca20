"""Quotas that bind at some rate, each with the page that states it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Quota:
    value: float
    source: str


PARTITION_WRITES: Final = Quota(
    value=1_000, source="DynamoDB: Best practices for partition keys (fixed)"
)
TABLE_WRITES: Final = Quota(
    value=40_000, source="DynamoDB: Quotas, per table and per index (adjustable)"
)
NEW_TABLE_WRITES: Final = Quota(
    value=4_000, source="DynamoDB: Pre-warming a table for on-demand capacity mode"
)
CONCURRENT_FUNCTIONS: Final = Quota(value=1_000, source="Lambda: Quotas (adjustable)")
MAPPING_CONCURRENCY: Final = Quota(
    value=1_000, source="Lambda: Configuring scaling behavior for SQS event source mappings"
)
NEW_POLLERS_A_MINUTE: Final = Quota(value=300, source=MAPPING_CONCURRENCY.source)
IN_FLIGHT: Final = Quota(value=120_000, source="SQS: Standard queue quotas (adjustable)")
PUT_EVENTS: Final = Quota(value=10_000, source="EventBridge: Quotas (adjustable)")
PREFIX_PUTS: Final = Quota(value=3_500, source="S3: Performance guidelines, per partitioned prefix")
TRANSITIONS: Final = Quota(value=1_500, source="Step Functions: Quotas, refill rate (adjustable)")
EXECUTIONS: Final = Quota(value=300, source="Step Functions: Quotas, refill rate (adjustable)")
STRIPE_REQUESTS: Final = Quota(value=100, source="Stripe: Rate limits, live mode (on request)")
STRIPE_ENDPOINT: Final = Quota(value=25, source="Stripe: Rate limits, each endpoint (on request)")
HUBSPOT_REQUESTS: Final = Quota(
    value=19, source="HubSpot: API usage guidelines, 190 in 10 seconds (paid add-on)"
)
