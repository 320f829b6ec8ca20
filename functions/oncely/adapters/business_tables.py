"""Reads business rows from DynamoDB for a contract's check."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from oncely.adapters.aws import NO_ANSWER, code_of, gave_no_answer, is_busy
from oncely.adapters.job_rows import plain, serialized
from oncely.domain.errors import NotConfiguredError, UnavailableError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True)
class DynamoTable:
    """One table, read one row at a time."""

    client: "DynamoDBClient"
    name: str

    def get(self, key: Mapping[str, str]) -> Mapping[str, object] | None:
        """Read a row, consistently: a contract decides on it."""
        try:
            row = self.client.get_item(
                TableName=self.name,
                Key={name: serialized(value) for name, value in key.items()},
                ConsistentRead=True,
            ).get("Item")
        except NO_ANSWER as error:
            raise UnavailableError(
                f"DynamoDB gave no answer when table {self.name!r} was read: {error}"
            ) from error
        except ClientError as error:
            code = code_of(error)
            if is_busy(code) or gave_no_answer(error):
                raise UnavailableError(
                    f"DynamoDB could not read table {self.name!r} now ({code})"
                ) from error
            raise NotConfiguredError(
                f"table {self.name!r} cannot be read ({code}): check its name, key and grants"
            ) from error
        return None if row is None else plain(row)
