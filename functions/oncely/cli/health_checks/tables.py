"""Checks that tables have the indexes, stream, TTL and recovery that the code relies on."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from oncely.cli.health_checks.deployed import AwsDescription, DeployedStack
from oncely.contracts.settings import pascal_case
from oncely.core.table_guard import DynamoTableIdentity, blocking_reason
from oncely.core.text import format_minute
from oncely.operate import job_index as job_finder
from oncely.plugins.health import Finding, failed, passed, warned
from oncely.reconcile import due_index

_JOBS: Final = "jobs"
_TTL: Final = "expires_at"
_DEPLOY: Final = "deploy the stack again"
# The indexes of the job table that the code queries. An existing table may have more.
JOB_INDEXES: Final = (
    due_index.INDEX,
    job_finder.BY_CUSTOMER,
    job_finder.BY_REFERENCE,
    job_finder.ATTENTION_INDEX,
    job_finder.BY_SUBJECT,
)


def check_tables(deployed: DeployedStack) -> Iterator[Finding]:
    """Check each table in the outputs."""
    client = deployed.connection.client("dynamodb")
    for name in deployed.table_names:
        table = deployed.connection.outputs.get(f"{pascal_case(name)}TableName")
        if table is None:
            continue
        described: AwsDescription = client.describe_table(TableName=table)["Table"]
        faults = list(_faults(name, described))
        missing = list(_missing_indexes(described, _indexes(deployed, name)))
        if name in deployed.existing_tables:
            yield from (_without_index(name, one) for one in missing)
        else:
            faults += missing
        if faults:
            yield failed(f"table {name}", "; ".join(faults), _DEPLOY)
        elif not missing:
            yield passed(f"table {name}", "active, with all indexes")
        if name == _JOBS:
            yield _check_identity(client, table, deployed.now)
        if deployed.connection.is_local:
            continue  # the local stack neither expires nor restores rows
        yield from _check_recovery(client, name, table)
        schema = deployed.table_schemas.get(name)
        if name == _JOBS or (schema is not None and schema.has_ttl):
            yield _check_expiry(client, name, table)


def _indexes(deployed: DeployedStack, name: str) -> tuple[str, ...]:
    if name == _JOBS:
        return JOB_INDEXES
    schema = deployed.table_schemas.get(name)
    return () if schema is None else tuple(index.name for index in schema.indexes)


def _faults(name: str, described: AwsDescription) -> Iterator[str]:
    if described["TableStatus"] not in {"ACTIVE", "UPDATING"}:
        yield f"status is {described['TableStatus']}"
    stream = described.get("StreamSpecification", {})
    if name == _JOBS and stream.get("StreamViewType") != "NEW_AND_OLD_IMAGES":
        yield "stream does not show old and new rows, so the history is not written"


def _missing_indexes(described: AwsDescription, indexes: tuple[str, ...]) -> Iterator[str]:
    there = {
        one["IndexName"]: one.get("IndexStatus", "ACTIVE")  # the local engine omits it
        for one in described.get("GlobalSecondaryIndexes", [])
    }
    for index in indexes:
        if there.get(index) != "ACTIVE":
            yield f"index {index} is {there.get(index, 'missing')}"


def _without_index(name: str, missing: str) -> Finding:
    return warned(
        f"table {name}",
        f"{missing}: the reconciler does not find rows whose message was lost",
        "add the index, or send messages from an outbox; see docs/tables.md",
    )


def _check_identity(client: Any, table: str, now: datetime) -> Finding:  # noqa: ANN401  # boto3's client
    # The rule that workers use to accept the table.
    check = "job table identity"
    look = DynamoTableIdentity(client, table)
    item, facts = look.identity(), look.with_protection(look.facts())
    summary = f"table id {facts.table_id}; stream, TTL and point-in-time recovery are on"
    if (reason := blocking_reason(item, facts, now=now)) is not None or item is None:
        return failed(check, reason or "", "see docs/operations.md#job-table-blocked")
    if item.restored_at is not None:
        summary = f"{summary}; restored at {format_minute(item.restored_at)}"
    return passed(check, f"{item.deployment}; {summary}")


def _check_expiry(client: Any, name: str, table: str) -> Finding:  # noqa: ANN401  # boto3's client
    check = f"TTL of table {name}"
    found = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    if found.get("TimeToLiveStatus") not in {"ENABLED", "ENABLING"}:
        return failed(check, "TTL is off: rows never expire", _DEPLOY)
    if found.get("AttributeName") != _TTL:
        return failed(check, f"rows expire by {found.get('AttributeName')}, not by {_TTL}", _DEPLOY)
    return passed(check, f"rows expire by {_TTL}")


def _check_recovery(client: Any, name: str, table: str) -> Iterator[Finding]:  # noqa: ANN401  # boto3's client
    found = client.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    state = found.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
    if state != "ENABLED":
        yield warned(
            f"table {name}",
            "point-in-time recovery is off",
            f"aws dynamodb update-continuous-backups --table-name {table} "
            "--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true",
        )
