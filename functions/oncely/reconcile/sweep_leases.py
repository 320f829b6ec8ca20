"""Sweep leases: one item per shard in the job table."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from oncely.core.aws_errors import translated, write_conditionally
from oncely.core.row_items import serialize_field
from oncely.core.text import format_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Every job type has a dot, so no job key can begin like this.
LEASE_KEY_PREFIX: Final = "sweep:"
_EXPIRY_MARGIN: Final = timedelta(days=1)
_NAMES: Final = {"#holder": "holder", "#until": "until"}


@dataclass(frozen=True)
class SweepLeases:
    """Leases in the job table; no index shows them."""

    client: "DynamoDBClient"
    table: str

    def acquire(self, shard: int, *, holder: str, now: datetime, until: datetime) -> bool:
        return self._update(
            shard,
            UpdateExpression="SET #holder = :holder, #until = :until, expires_at = :expires",
            ConditionExpression=(
                "attribute_not_exists(job_key) OR #until <= :now OR #holder = :holder"
            ),
            ExpressionAttributeNames=_NAMES,
            ExpressionAttributeValues={
                ":holder": {"S": holder},
                ":until": {"S": format_time(until)},
                ":now": {"S": format_time(now)},
                ":expires": serialize_field("expires_at", until + _EXPIRY_MARGIN),
            },
        )

    def release(self, shard: int, *, holder: str) -> None:
        self._update(
            shard,
            UpdateExpression="SET #until = :ended",
            ConditionExpression="#holder = :holder",
            ExpressionAttributeNames=_NAMES,
            ExpressionAttributeValues={":holder": {"S": holder}, ":ended": {"S": ""}},
        )

    def _update(self, shard: int, **update: Any) -> bool:  # noqa: ANN401  # parameters of the SDK
        key: Any = {"job_key": {"S": f"{LEASE_KEY_PREFIX}{shard}"}}
        resource = f"the sweep lease of shard {shard}"
        with translated(resource, name=self.table, check="the job table"):
            return write_conditionally(
                lambda: self.client.update_item(TableName=self.table, Key=key, **update)
            )
