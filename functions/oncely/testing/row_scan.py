"""A scan of all rows in memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from oncely.search_ports import RowPage
from oncely.testing.memory import MemoryJobStore


@dataclass
class MemoryRowScan:
    """All rows of a memory store in one page."""

    store: MemoryJobStore
    unreadable: tuple[tuple[str, int | None], ...] = ()

    def pages(self, *, after: str | None = None) -> Iterator[RowPage]:
        del after
        yield RowPage(jobs=tuple(self.store.jobs.values()), unreadable=self.unreadable, after=None)
