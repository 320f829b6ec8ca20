"""The schema of a DynamoDB table: its key, its indexes, TTL and stream."""

from dataclasses import dataclass


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


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """A table that the stack creates unless the stage names an existing one."""

    name: str  # short, such as `orders`
    key: KeySchema
    indexes: tuple[IndexSchema, ...] = ()
    has_stream: bool = False
    has_ttl: bool = False
