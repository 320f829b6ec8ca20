"""The schema of a DynamoDB table: its key, its columns, its indexes, TTL and stream."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, kw_only=True)
class KeySchema:
    """The key of a table or an index. All key attributes are strings."""

    partition: str
    sort: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the key attributes."""
        return (self.partition,) if self.sort is None else (self.partition, self.sort)


@dataclass(frozen=True, kw_only=True)
class IndexSchema:
    """A secondary index, which projects the keys and the attributes in `include`."""

    name: str
    key: KeySchema
    include: tuple[str, ...] = ()


class ColumnType(StrEnum):
    """The type of a column. The values are DynamoDB's."""

    TEXT = "S"
    NUMBER = "N"

    @property
    def label(self) -> str:
        """Its name in texts."""
        return self.name.lower()


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column that the jobs read or write. A stage may map it to another name."""

    name: str
    description: str
    type: ColumnType = ColumnType.TEXT
    required: bool = False  # without it, the jobs of the row need review


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """A table that the stack creates unless the stage names an existing one."""

    name: str  # short, such as `orders`
    key: KeySchema
    columns: tuple[Column, ...] = ()  # those that may be mapped, the key's included
    indexes: tuple[IndexSchema, ...] = ()
    has_stream: bool = False
    has_ttl: bool = False  # a row with `expires_at` is removed at that time
    # The default of the setting `<name>_retention_days`, which a contract reads to set the expiry.
    retention_days: int | None = None
    # Its partition key is the id of a record: erasing the record deletes these rows.
    erased_by_partition: bool = False

    def mapping_faults(self, mapping: Mapping[str, str]) -> Iterator[str]:
        """Yield what is wrong with a mapping of its columns to the names in an existing table."""
        known = [column.name for column in self.columns]
        for name in mapping:
            if name not in known:
                listed = ", ".join(known) or "none"
                yield f"{name} is not a mappable column of {self.name} (these are: {listed})"
        names: dict[str, str] = {}
        for column in known:
            actual = mapping.get(column, column)
            if other := names.get(actual):
                yield f"{other} and {column} are both the column {actual} of the table"
            names[actual] = column
