"""The guard of the job table, as every function that claims or repairs has it."""

from oncely.aws.clients import AwsClients
from oncely.aws.deployment_identity import DynamoTableIdentity
from oncely.aws.system import SystemClock
from oncely.run.table_guard import CheckedTable


def build_table_guard(clients: AwsClients, jobs_table: str) -> CheckedTable:
    """Refuses a job table that may not hold the proofs."""
    return CheckedTable(DynamoTableIdentity(clients.dynamodb, jobs_table), SystemClock())
