"""A store and what stands beside it, on whichever engine."""

from collections.abc import Callable
from dataclasses import dataclass

from oncely.aws.dynamodb_due_index import DynamoDueIndex
from oncely.aws.dynamodb_sweep_leases import DynamoSweepLeases
from oncely.domain.keys import JobKey
from oncely.ports import DueIndex, JobIndex, JobStore, SweepLeases, UniqueWindows
from oncely.testing.memory import (
    MemoryDueIndex,
    MemoryJobIndex,
    MemoryJobStore,
    MemorySweepLeases,
    MemoryUniqueWindows,
)
from tests.support.dynamo import DynamoFixture
from tests.support.engines import EngineKind
from tests.support.in_memory_stack import BusinessRows


@dataclass(frozen=True, kw_only=True)
class StoreFixture:
    engine: EngineKind
    store: JobStore
    windows: UniqueWindows
    finder: JobIndex
    due: DueIndex
    leases: SweepLeases
    rows: BusinessRows
    remove_row: Callable[[JobKey], None]
    corrupt_row: Callable[[JobKey], None]  # edit it by hand into one that cannot be read


def memory_fixture() -> StoreFixture:
    memory = MemoryJobStore()
    return StoreFixture(
        engine=EngineKind.MEMORY,
        store=memory,
        windows=MemoryUniqueWindows(memory),
        finder=MemoryJobIndex(memory),
        due=MemoryDueIndex(memory),
        leases=MemorySweepLeases(),
        rows=memory.business_rows,
        remove_row=memory.expire,
        corrupt_row=memory.unreadable.add,
    )


def dynamodb_fixture(engine: EngineKind, tables: DynamoFixture) -> StoreFixture:
    return StoreFixture(
        engine=engine,
        store=tables.store(),
        windows=tables.windows(),
        finder=tables.finder(),
        due=DynamoDueIndex(tables.client, tables.jobs_table),
        leases=DynamoSweepLeases(tables.client, tables.jobs_table),
        rows=tables.rows(),
        remove_row=tables.remove_row,
        corrupt_row=lambda key: tables.edit_row(key, attempts={"S": "many"}),
    )
