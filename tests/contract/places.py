"""A store and what stands beside it, on whichever engine."""

from collections.abc import Callable
from dataclasses import dataclass

from oncely.adapters.due_index import DynamoDueIndex
from oncely.adapters.sweep_leases import DynamoSweepLeases
from oncely.domain.keys import JobKey
from oncely.ports import DueIndex, JobFinder, JobStore, SweepLeases, UniqueWindows
from oncely.testing.memory import (
    MemoryDueIndex,
    MemoryJobFinder,
    MemoryJobStore,
    MemorySweepLeases,
    MemoryWindows,
)
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
    due: DueIndex
    leases: SweepLeases
    rows: Rows
    remove_row: Callable[[JobKey], None]


def in_memory() -> Place:
    memory = MemoryJobStore()
    return Place(
        kind=Kind.MEMORY,
        store=memory,
        windows=MemoryWindows(memory),
        finder=MemoryJobFinder(memory),
        due=MemoryDueIndex(memory),
        leases=MemorySweepLeases(),
        rows=memory.business,
        remove_row=memory.expire,
    )


def on_dynamodb(kind: Kind, tables: Dynamo) -> Place:
    return Place(
        kind=kind,
        store=tables.store(),
        windows=tables.windows(),
        finder=tables.finder(),
        due=DynamoDueIndex(tables.client, tables.jobs_table),
        leases=DynamoSweepLeases(tables.client, tables.jobs_table),
        rows=tables.rows(),
        remove_row=tables.remove_row,
    )
