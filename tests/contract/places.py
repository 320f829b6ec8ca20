"""A store and what stands beside it, on whichever engine."""

from collections.abc import Callable
from dataclasses import dataclass

from oncely.domain.keys import JobKey
from oncely.ports import JobFinder, JobStore, UniqueWindows
from oncely.testing.memory import MemoryJobFinder, MemoryJobStore, MemoryWindows
from tests.support.dynamo import Dynamo
from tests.support.engines import Kind
from tests.support.world import Rows


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a test's rows are."""

    kind: Kind
    store: JobStore
    windows: UniqueWindows
    finder: JobFinder
    rows: Rows
    remove_row: Callable[[JobKey], None]


def in_memory() -> Place:
    memory = MemoryJobStore()
    return Place(
        kind=Kind.MEMORY,
        store=memory,
        windows=MemoryWindows(memory),
        finder=MemoryJobFinder(memory),
        rows=memory.business,
        remove_row=memory.expire,
    )


def on_dynamodb(kind: Kind, tables: Dynamo) -> Place:
    return Place(
        kind=kind,
        store=tables.store(),
        windows=tables.windows(),
        finder=tables.finder(),
        rows=tables.rows(),
        remove_row=tables.remove_row,
    )
