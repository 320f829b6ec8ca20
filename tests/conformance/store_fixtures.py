"""A job store and its companions, on any engine."""

from collections.abc import Callable
from dataclasses import dataclass

from oncely.alerts.budget_table import DynamoAlertBudget
from oncely.alerts.budgeted_notifier import AlertBudget
from oncely.contracts.ports import (
    DueIndex,
    GateTable,
    JobInserter,
    JobStore,
    SweepLeases,
)
from oncely.contracts.search_ports import JobIndex
from oncely.core.keys import JobKey
from oncely.reconcile.due_index import DynamoDueIndex
from oncely.reconcile.sweep_leases import DynamoSweepLeases
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
    budget: AlertBudget
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
        due=DynamoDueIndex(tables.client, tables.jobs_table),
        leases=DynamoSweepLeases(tables.client, tables.jobs_table),
        budget=DynamoAlertBudget(tables.client, tables.jobs_table),
        gates=tables.gates(),
        rows=tables.rows(),
        remove_row=tables.remove_row,
        corrupt_row=lambda key: tables.edit_row(key, attempts={"S": "many"}),
    )
