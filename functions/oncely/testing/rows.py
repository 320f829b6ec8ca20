"""The rows of AWS in memory as a test reads and writes them, past the adapters."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from oncely.contracts.table_schema import KeySchema, TableSchema
from oncely.core.errors import UnreadableRowError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey, is_job_type
from oncely.core.row_items import deserialize_job, deserialize_row, serialize, serialize_job
from oncely.core.text import parse_time
from oncely.reconcile.sweeps import LEASE_KEY_PREFIX
from oncely.testing.memory_aws.dynamodb import Item, MemoryDynamo

BusinessRow = dict[str, object]


class BusinessRows:
    """Business rows by the short name of their table and by their key."""

    def __init__(self, dynamo: MemoryDynamo, own_tables: tuple[str, ...]) -> None:
        self._dynamo, self._own = dynamo, own_tables

    def put(self, table: str, key: Mapping[str, str], row: Mapping[str, object]) -> None:
        """Write a whole row."""
        self.ensure_table(table, key)
        item = Item({name: serialize(value) for name, value in {**key, **row}.items()})
        self._dynamo.tables[table][tuple(key.values())] = item

    def ensure_table(self, table: str, key: Iterable[str]) -> None:
        """Add a table whose schema no contract declares, because another stack owns it."""
        if table not in self._dynamo.tables:
            schema = KeySchema(**dict(zip(("partition", "sort"), key, strict=False)))
            self._dynamo.add_table(table, TableSchema(name=table, key=schema))

    def get(self, table: str, key: Mapping[str, str]) -> BusinessRow | None:
        """Read a row. Returns None if there is none."""
        item = self._dynamo.tables.get(table, {}).get(tuple(key.values()))
        return None if item is None else deserialize_row(item)

    def change(self, table: str, key: Mapping[str, str], **columns: object) -> None:
        """Set columns of a row."""
        self.put(table, key, {**(self.get(table, key) or {}), **columns})

    def all(self) -> Iterator[tuple[str, BusinessRow]]:
        """Yield every row with the name of its table."""
        for table, items in self._dynamo.tables.items():
            if table not in self._own:
                yield from ((table, deserialize_row(item)) for item in items.values())


class JobRows:
    """The job rows of a table, without the other items in it. Reads each row once."""

    def __init__(self, dynamo: MemoryDynamo, table: str) -> None:
        self._items = dynamo.tables[table]
        self._read: dict[int, tuple[Item, JobRow | None]] = {}  # by the id of the item

    def all(self) -> dict[JobKey, JobRow]:
        """Return the rows that can be read, by their key."""
        jobs = map(self.parse, self._items.values())
        return {job.job_key: job for job in jobs if job is not None}

    def get(self, key: JobKey) -> JobRow | None:
        """Return the row of a job. Returns None if there is none that can be read."""
        return self.parse(self._items.get((key,)))

    def parse(self, item: Item | None) -> JobRow | None:
        """Return the job of an item. Returns None if there is none that can be read."""
        if item is None:
            return None
        known = self._read.get(id(item))
        if known is None or known[0] is not item:
            known = self._read[id(item)] = (item, _parse(item))
        return known[1]

    def put(self, job: JobRow, *, due_shards: int) -> None:
        """Write a row as it is."""
        self._items[job.job_key,] = Item(serialize_job(job, due_shards=due_shards))

    def lease_ends(self) -> list[datetime]:
        """Return the ends of the sweep leases that are held."""
        leases = [
            item for (key, *_), item in self._items.items() if key.startswith(LEASE_KEY_PREFIX)
        ]
        return [parse_time(until) for item in leases if (until := item["until"]["S"])]


def _parse(item: Item) -> JobRow | None:
    if not is_job_type(str(item["job_key"]["S"]).partition(":")[0]):
        return None
    try:
        return deserialize_job(item)
    except UnreadableRowError:
        return None
