"""The identity item of the job table, and what DynamoDB says about that table.

First setup and `oncely restore-proofs` write the item; workers only read it.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import ClientError

from oncely.adapters.aws import NO_ANSWER, code_of, is_temporary
from oncely.domain.errors import NotConfiguredError, OncelyError, UnavailableError
from oncely.domain.table_identity import Identity, TableFacts
from oncely.domain.times import instant, time_text

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# No job type is spelled without a dot, so no job has this key. The item has none of the attributes
# that an index is made over, so no list, count or sweep shows it.
IDENTITY_KEY: Final = "deployment:identity"
_TIMES: Final = ("restored_at", "replays_until")
# 64 random bits: short enough for every provider key, and no two stacks get the same.
_BYTES: Final = 8
_ON: Final = frozenset({"ENABLED", "ENABLING"})
_T = TypeVar("_T")


def new_identity() -> str:
    """An identity that no other deployment has."""
    return secrets.token_hex(_BYTES)


@dataclass(frozen=True)
class DynamoTableIdentity:
    """The job table as the guard sees it, and the only two writes of its identity item."""

    client: "DynamoDBClient"
    table: str

    def identity(self) -> Identity | None:
        """Read the identity item, consistently."""
        item = self._ask(
            lambda: self.client.get_item(
                TableName=self.table, Key={"job_key": {"S": IDENTITY_KEY}}, ConsistentRead=True
            )
        ).get("Item")
        if item is None or not {"identity", "table_id"} <= item.keys():
            return None
        times = {name: instant(item[name]["S"]) for name in _TIMES if name in item}
        return Identity(
            deployment=item["identity"]["S"],
            table_id=item["table_id"]["S"],
            restored_at=times.get("restored_at"),
            replays_until=times.get("replays_until"),
        )

    def facts(self) -> TableFacts:
        """Describe the table."""
        found: Any = self._ask(lambda: self.client.describe_table(TableName=self.table))["Table"]
        return TableFacts(
            name=self.table,
            table_id=found.get("TableId", ""),
            has_stream=bool(found.get("StreamSpecification", {}).get("StreamEnabled")),
        )

    def with_protection(self, facts: TableFacts) -> TableFacts:
        """Ask whether rows expire and can be restored."""
        ttl: Any = self._ask(lambda: self.client.describe_time_to_live(TableName=self.table))
        backups: Any = self._ask(
            lambda: self.client.describe_continuous_backups(TableName=self.table)
        )
        recovery = backups["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        return replace(
            facts,
            has_ttl=ttl["TimeToLiveDescription"].get("TimeToLiveStatus") in _ON,
            has_recovery=recovery.get("PointInTimeRecoveryStatus") in _ON,
        )

    def is_empty(self) -> bool:
        """Whether the table holds no item at all."""
        found = self._ask(
            lambda: self.client.scan(TableName=self.table, Limit=1, ConsistentRead=True)
        )
        return not found.get("Items")

    def write(self, identity: Identity, *, instead_of: Identity | None) -> bool:
        """Write the item over the one that was read. Returns False if it has changed."""
        times = {
            name: {"S": time_text(at)}
            for name in _TIMES
            if (at := getattr(identity, name)) is not None
        }
        item: dict[str, Any] = {
            "job_key": {"S": IDENTITY_KEY},
            "identity": {"S": identity.deployment},
            "table_id": {"S": identity.table_id},
            **times,
        }
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(table_id)"}
        if instead_of is not None:
            condition = {
                "ConditionExpression": "#identity = :identity AND table_id = :table",
                "ExpressionAttributeNames": {"#identity": "identity"},
                "ExpressionAttributeValues": {
                    ":identity": {"S": instead_of.deployment},
                    ":table": {"S": instead_of.table_id},
                },
            }
        try:
            self._ask(lambda: self.client.put_item(TableName=self.table, Item=item, **condition))
        except OncelyError as error:
            if isinstance(cause := error.__cause__, ClientError) and _is_refusal(cause):
                return False
            raise
        return True

    def _ask(self, send: Callable[[], _T]) -> _T:
        try:
            return send()
        except (*NO_ANSWER, ClientError) as error:
            raise self._trouble(error) from error

    def _trouble(self, error: Exception) -> OncelyError:
        told = f"the identity of the deployment cannot be read from table {self.table!r}"
        if not isinstance(error, ClientError) or is_temporary(error):
            return UnavailableError(f"{told}: {error}")
        return NotConfiguredError(
            f"{told} ({code_of(error)}): check that the table exists and that this role may read, "
            "describe and write it"
        )


def _is_refusal(error: ClientError) -> bool:
    return code_of(error) == "ConditionalCheckFailedException"
