"""A job store and its companions, on any engine."""

from collections.abc import Callable
from dataclasses import dataclass

from oncely.alerts.budgeted_notifier import DynamoAlertBudget
from oncely.core.inserter import JobInserter
from oncely.core.keys import JobKey
from oncely.core.store import JobStore
from oncely.gates.table import GateTable
from oncely.operate.job_index import JobIndex
from oncely.reconcile.due_index import DueIndex
from oncely.reconcile.sweeps import SweepLeases
from tests.support.dynamo import DynamoFixture
from tests.support.engines import EngineKind
from tests.support.in_memory_stack import BusinessTables


@dataclass(frozen=True, kw_only=True)
class StoreFixture:
    engine: EngineKind
    store: JobStore
    inserter: JobInserter
    finder: JobIndex
    due: DueIndex
    leases: SweepLeases
    budget: DynamoAlertBudget
    gates: GateTable
    rows: BusinessTables
    remove_row: Callable[[JobKey], None]
    corrupt_row: Callable[[JobKey], None]  # edit it by hand into one that cannot be read


def store_fixture(engine: EngineKind, tables: DynamoFixture) -> StoreFixture:
    return StoreFixture(
        engine=engine,
        store=tables.store(),
        inserter=tables.inserter(),
        finder=tables.finder(),
        due=DueIndex(tables.client, tables.jobs_table),
        leases=SweepLeases(tables.client, tables.jobs_table),
        budget=DynamoAlertBudget(tables.client, tables.jobs_table),
        gates=tables.gates(),
        rows=tables.rows(),
        remove_row=tables.remove_row,
        corrupt_row=lambda key: tables.edit_row(key, attempts={"S": "many"}),
    )
