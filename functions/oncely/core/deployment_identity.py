"""The identity item of the job table, and what DynamoDB says about that table.

First setup and `oncely restore-proofs` write the item; workers only read it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oncely.core.aws_errors import translated, write_conditionally
from oncely.core.table_identity import TableFacts, TableIdentity
from oncely.core.text import format_time, parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# No job type is spelled without a dot, so no job has this key. The item has none of the attributes
# that an index is made over, so no list, count or sweep shows it.
IDENTITY_KEY: Final = "deployment:identity"
_TIMES: Final = ("restored_at", "replays_until")
_ENABLED_STATES: Final = frozenset({"ENABLED", "ENABLING"})
_T = TypeVar("_T")


@dataclass(frozen=True)
class DynamoTableIdentity:
    """The job table as the guard reads it, with the only two writes of its identity item."""

    client: "DynamoDBClient"
    table: str

    def identity(self) -> TableIdentity | None:
        item = self._call(
            lambda: self.client.get_item(
                TableName=self.table, Key={"job_key": {"S": IDENTITY_KEY}}, ConsistentRead=True
            )
        ).get("Item")
        if item is None or not {"identity", "table_id"} <= item.keys():
            return None
        times = {name: parse_time(item[name]["S"]) for name in _TIMES if name in item}
        return TableIdentity(
            deployment=item["identity"]["S"],
            table_id=item["table_id"]["S"],
            tag_key=item["tag_key"]["S"] if "tag_key" in item else "",
            restored_at=times.get("restored_at"),
            replays_until=times.get("replays_until"),
        )

    def facts(self) -> TableFacts:
        found: Any = self._call(lambda: self.client.describe_table(TableName=self.table))["Table"]
        return TableFacts(
            name=self.table,
            table_id=found.get("TableId", ""),
            has_stream=bool(found.get("StreamSpecification", {}).get("StreamEnabled")),
        )

    def with_protection(self, facts: TableFacts) -> TableFacts:
        ttl: Any = self._call(lambda: self.client.describe_time_to_live(TableName=self.table))
        client, name = self.client, self.table
        backups: Any = self._call(lambda: client.describe_continuous_backups(TableName=name))
        recovery = backups["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        return replace(
            facts,
            has_ttl=ttl["TimeToLiveDescription"].get("TimeToLiveStatus") in _ENABLED_STATES,
            has_recovery=recovery.get("PointInTimeRecoveryStatus") in _ENABLED_STATES,
        )

    def is_empty(self) -> bool:
        request: Any = {"TableName": self.table, "Limit": 1, "ConsistentRead": True}
        return not self._call(lambda: self.client.scan(**request)).get("Items")

    def write(self, identity: TableIdentity, *, replacing: TableIdentity | None) -> bool:
        """Write the item over the one that was read. Returns False if it has changed."""
        item: dict[str, Any] = {
            "job_key": {"S": IDENTITY_KEY},
            "identity": {"S": identity.deployment},
            "table_id": {"S": identity.table_id},
            "tag_key": {"S": identity.tag_key},
            **{name: {"S": format_time(at)} for name in _TIMES if (at := getattr(identity, name))},
        }
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(table_id)"}
        if replacing is not None:
            condition = {
                "ConditionExpression": "#identity = :identity AND table_id = :table",
                "ExpressionAttributeNames": {"#identity": "identity"},
                "ExpressionAttributeValues": {
                    ":identity": {"S": replacing.deployment},
                    ":table": {"S": replacing.table_id},
                },
            }
        put = partial(self.client.put_item, TableName=self.table, Item=item, **condition)
        return self._call(lambda: write_conditionally(put))

    def _call(self, send: Callable[[], _T]) -> _T:
        check = "that the table exists and that this role may read, describe and write it"
        with translated("the identity of the job table", name=self.table, check=check):
            return send()
