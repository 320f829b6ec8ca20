"""The guard of the job table, as every function that claims or repairs has it."""

from oncely.adapters.clients import Clients
from oncely.adapters.deployment_identity import DynamoTableIdentity
from oncely.adapters.system import SystemClock
from oncely.services.table_guard import CheckedTable


def table_guard(clients: Clients, jobs_table: str) -> CheckedTable:
    """Refuses a job table that may not hold the proofs."""
    return CheckedTable(DynamoTableIdentity(clients.dynamodb, jobs_table), SystemClock())
