"""Business tables on DynamoDB."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import AWS_ERRORS, error_code, translated, write_conditionally
from oncely.core.effect_outcomes import BusinessWrite
from oncely.core.row_items import deserialize_row, serialize
from oncely.core.store import business_update

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_PAGE_SIZE: Final = 100


@dataclass(frozen=True)
class BusinessTable:
    """One business table. Contracts use our column names, whatever the table calls them."""

    client: "DynamoDBClient"
    name: str
    short_name: str  # the short name that contracts use
    columns: Mapping[str, str] = field(default_factory=dict)  # see Settings.table_columns
    may_lack_indexes: bool = False

    def get(self, key: Mapping[str, str]) -> Mapping[str, object] | None:
        """Read a row, consistently: a contract decides on it."""
        with self._translate_errors():
            row = self.client.get_item(
                TableName=self.name,
                Key={self._column(name): serialize(value) for name, value in key.items()},
                ConsistentRead=True,
            ).get("Item")
        return None if row is None else self._with_our_names(deserialize_row(row))

    def query_index(
        self, index: str, *, partitions: tuple[str, Sequence[str]], max_sort_key: tuple[str, str]
    ) -> Iterator[Mapping[str, object]]:
        """Query a sparse index, each partition oldest first, reading pages as needed."""
        name, values = partitions
        names = {"#partition": self._column(name), "#sort": self._column(max_sort_key[0])}
        with self._translate_errors():
            for value in values:
                pages = self.client.get_paginator("query").paginate(
                    TableName=self.name,
                    IndexName=index,
                    KeyConditionExpression="#partition = :partition AND #sort <= :sort",
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues={
                        ":partition": serialize(value),
                        ":sort": serialize(max_sort_key[1]),
                    },
                    PaginationConfig={"PageSize": _PAGE_SIZE},
                )
                try:
                    for page in pages:
                        rows = map(deserialize_row, page["Items"])
                        yield from map(self._with_our_names, rows)
                except AWS_ERRORS as error:
                    if self.may_lack_indexes and _is_missing_index(error):
                        return
                    raise

    def update(self, write: BusinessWrite) -> bool:
        update = business_update(write, self.columns)
        with self._translate_errors():
            return write_conditionally(
                lambda: self.client.update_item(TableName=self.name, **update)
            )

    def delete_partition(self, partition: Mapping[str, str], *, sort: str, dry_run: bool) -> int:
        """Delete the rows of one partition, for an erasure, and return their number."""
        [(name, value)] = partition.items()
        deleted = 0
        with self._translate_errors():
            pages = self.client.get_paginator("query").paginate(
                TableName=self.name,
                KeyConditionExpression="#partition = :partition",
                ProjectionExpression="#partition, #sort",
                ExpressionAttributeNames={
                    "#partition": self._column(name),
                    "#sort": self._column(sort),
                },
                ExpressionAttributeValues={":partition": serialize(value)},
                ConsistentRead=True,
            )
            for page in pages:
                for key in page["Items"]:
                    deleted += 1
                    if not dry_run:
                        self.client.delete_item(TableName=self.name, Key=key)
        return deleted

    def _column(self, name: str) -> str:
        return self.columns.get(name, name)

    def _with_our_names(self, row: Mapping[str, object]) -> Mapping[str, object]:
        if not self.columns:
            return row
        ours = {theirs: name for name, theirs in self.columns.items()}
        # Their table may have a column with our name of a mapped one. It is another value.
        return {
            ours.get(name, name): value
            for name, value in row.items()
            if name in ours or name not in self.columns
        }

    def _translate_errors(self) -> AbstractContextManager[None]:
        resource = f"the table {self.short_name!r}"
        return translated(resource, name=self.name, check="its name, its key and the grants")


def _is_missing_index(error: Exception) -> bool:
    """Whether the index does not exist. DynamoDB has no separate error code for this."""
    return error_code(error) == "ValidationException" and "specified index" in str(error)
