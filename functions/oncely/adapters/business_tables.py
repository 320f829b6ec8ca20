"""Business rows on DynamoDB, as a contract reads and reserves them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from oncely.adapters.aws import NO_ANSWER, code_of, is_temporary
from oncely.adapters.expressions import local_update
from oncely.adapters.job_rows import plain, serialized
from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.writes import LocalWrite

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_PAGE: Final = 100


@dataclass(frozen=True)
class DynamoTable:
    """One table, read one row at a time."""

    client: "DynamoDBClient"
    name: str

    def get(self, key: Mapping[str, str]) -> Mapping[str, object] | None:
        """Read a row, consistently: a contract decides on it."""
        with self._asking():
            row = self.client.get_item(
                TableName=self.name,
                Key={name: serialized(value) for name, value in key.items()},
                ConsistentRead=True,
            ).get("Item")
        return None if row is None else plain(row)

    def waiting(
        self, index: str, *, partitions: tuple[str, Sequence[str]], up_to: tuple[str, str]
    ) -> Iterator[Mapping[str, object]]:
        """Query a sparse index, each partition the oldest first; pages are read as needed."""
        name, values = partitions
        with self._asking():
            for value in values:
                pages = self.client.get_paginator("query").paginate(
                    TableName=self.name,
                    IndexName=index,
                    KeyConditionExpression="#partition = :partition AND #sort <= :sort",
                    ExpressionAttributeNames={"#partition": name, "#sort": up_to[0]},
                    ExpressionAttributeValues={
                        ":partition": serialized(value),
                        ":sort": serialized(up_to[1]),
                    },
                    PaginationConfig={"PageSize": _PAGE},
                )
                for page in pages:
                    yield from (plain(row) for row in page["Items"])

    def update(self, write: LocalWrite) -> bool:
        """Change a row if it holds what is expected."""
        with self._asking():
            try:
                self.client.update_item(TableName=self.name, **local_update(write))
            except ClientError as error:
                if code_of(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Whatever DynamoDB answers instead is an error of ours, which says what to do next."""
        try:
            yield
        except NO_ANSWER as error:
            raise UnavailableError(
                f"DynamoDB gave no answer about table {self.name!r}: {error}"
            ) from error
        except ClientError as error:
            code = code_of(error)
            if is_temporary(error):
                raise UnavailableError(
                    f"DynamoDB is too busy for table {self.name!r} ({code})"
                ) from error
            raise NotConfiguredError(
                f"table {self.name!r} cannot be used ({code}): check its name, its key and the "
                "grants"
            ) from error
