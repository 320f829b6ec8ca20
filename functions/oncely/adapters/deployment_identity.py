"""The identity of this deployment: one item of the job table, made once and never typed."""

import secrets
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from oncely.adapters.aws import NO_ANSWER, code_of, is_temporary
from oncely.domain.errors import NotConfiguredError, OncelyError, UnavailableError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# No job type is spelled without a dot, so no job has this key. The item has none of the attributes
# that an index is made over, so no list, count or sweep shows it.
IDENTITY_KEY: Final = "deployment:identity"
_IDENTITY: Final = "identity"
# 64 random bits: short enough for every provider key, and no two stacks get the same.
_BYTES: Final = 8


@dataclass(frozen=True)
class DeploymentIdentity:
    """Reads the identity once per process; the first worker of a new table makes it."""

    client: "DynamoDBClient"
    table: str
    _known: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> str:
        """Give the identity of the deployment that this table belongs to."""
        with self._lock:
            if not self._known:
                self._known.append(self._read() or self._make())
            return self._known[0]

    def _read(self) -> str | None:
        try:
            item = self.client.get_item(
                TableName=self.table,
                Key={"job_key": {"S": IDENTITY_KEY}},
                ConsistentRead=True,
            ).get("Item", {})
        except (*NO_ANSWER, ClientError) as error:
            raise self._trouble(error) from error
        return item[_IDENTITY]["S"] if _IDENTITY in item else None

    def _make(self) -> str:
        """Two workers may begin at once: whoever writes first decides for both."""
        try:
            made = self.client.update_item(
                TableName=self.table,
                Key={"job_key": {"S": IDENTITY_KEY}},
                UpdateExpression="SET #identity = if_not_exists(#identity, :new)",
                ExpressionAttributeNames={"#identity": _IDENTITY},
                ExpressionAttributeValues={":new": {"S": secrets.token_hex(_BYTES)}},
                ReturnValues="ALL_NEW",
            )
        except (*NO_ANSWER, ClientError) as error:
            raise self._trouble(error) from error
        return made["Attributes"][_IDENTITY]["S"]

    def _trouble(self, error: Exception) -> OncelyError:
        told = f"the identity of the deployment cannot be read from table {self.table!r}"
        if not isinstance(error, ClientError) or is_temporary(error):
            return UnavailableError(f"{told}: {error}")
        return NotConfiguredError(
            f"{told} ({code_of(error)}): check that the table exists and may be used"
        )
