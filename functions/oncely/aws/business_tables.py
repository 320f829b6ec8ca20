"""Business tables on DynamoDB."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from oncely.aws.errors import is_condition_failure, translated
from oncely.aws.expressions import business_update
from oncely.aws.job_rows import deserialize_row, serialize
from oncely.domain.effect_outcomes import BusinessWrite

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_PAGE_SIZE: Final = 100


@dataclass(frozen=True)
class DynamoBusinessTable:
    """One business table."""

    client: "DynamoDBClient"
    name: str

    def get(self, key: Mapping[str, str]) -> Mapping[str, object] | None:
        """Read a row, consistently: a contract decides on it."""
        with self._translate_errors():
            row = self.client.get_item(
                TableName=self.name,
                Key={name: serialize(value) for name, value in key.items()},
                ConsistentRead=True,
            ).get("Item")
        return None if row is None else deserialize_row(row)

    def query_index(
        self, index: str, *, partitions: tuple[str, Sequence[str]], max_sort_key: tuple[str, str]
    ) -> Iterator[Mapping[str, object]]:
        """Query a sparse index, each partition oldest first, reading pages as needed."""
        name, values = partitions
        with self._translate_errors():
            for value in values:
                pages = self.client.get_paginator("query").paginate(
                    TableName=self.name,
                    IndexName=index,
                    KeyConditionExpression="#partition = :partition AND #sort <= :sort",
                    ExpressionAttributeNames={"#partition": name, "#sort": max_sort_key[0]},
                    ExpressionAttributeValues={
                        ":partition": serialize(value),
                        ":sort": serialize(max_sort_key[1]),
                    },
                    PaginationConfig={"PageSize": _PAGE_SIZE},
                )
                for page in pages:
                    yield from (deserialize_row(row) for row in page["Items"])

    def update(self, write: BusinessWrite) -> bool:
        with self._translate_errors():
            try:
                self.client.update_item(TableName=self.name, **business_update(write))
            except ClientError as error:
                if is_condition_failure(error):
                    return False
                raise
        return True

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translated(f"table {self.name!r}", check="its name, its key and the grants")
