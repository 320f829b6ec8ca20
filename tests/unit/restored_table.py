"""A job table after a restore: its identity item names the table before."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from oncely.domain.table_identity import TableFacts, TableIdentity
from oncely.ports import RowPage
from oncely.testing.memory import MemoryJobStore

T1 = TableIdentity(deployment="dev", table_id="T1")
T2 = TableFacts(name="jobs", table_id="T2", has_stream=True, has_ttl=True, has_recovery=True)


@dataclass
class FakeIdentityTable:
    item: TableIdentity | None = T1
    table: TableFacts = T2
    writes: list[TableIdentity] = field(default_factory=list)

    def identity(self) -> TableIdentity | None:
        return self.item

    def facts(self) -> TableFacts:
        return self.table

    def with_protection(self, facts: TableFacts) -> TableFacts:
        return facts

    def write(self, identity: TableIdentity, *, replacing: TableIdentity | None) -> bool:
        if self.item != replacing:
            return False
        self.item = identity
        self.writes.append(identity)
        return True


@dataclass
class FakeRowScan:
    store: MemoryJobStore
    unreadable: tuple[tuple[str, int | None], ...] = ()

    def pages(self, *, after: str | None = None) -> Iterator[RowPage]:
        del after
        yield RowPage(jobs=tuple(self.store.jobs.values()), unreadable=self.unreadable, after=None)
