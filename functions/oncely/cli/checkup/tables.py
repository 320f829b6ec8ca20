"""Whether the tables keep, show and expire rows as the code counts on."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from oncely.aws import dynamodb_due_index as due_index
from oncely.aws import dynamodb_job_index as job_finder
from oncely.aws.deployment_identity import DynamoTableIdentity
from oncely.cli.checkup.deployed import AwsDescription, DeployedStack
from oncely.cli.checkup.findings import Finding, failed, passed, warned
from oncely.domain.table_identity import blocking_reason
from oncely.domain.text import format_minute
from oncely.jobs.payment_charge import REQUESTED_INDEX
from oncely.settings import pascal_case

_JOBS: Final = "jobs"
_TTL: Final = "expires_at"
_DEPLOY: Final = "deploy the stack again"
# What the code asks for by name; a table of another team's may have more.
INDEXES: Final = {
    _JOBS: (
        due_index.INDEX,
        job_finder.BY_CUSTOMER,
        job_finder.BY_REFERENCE,
        job_finder.ATTENTION_INDEX,
        job_finder.BY_SUBJECT,
    ),
    "orders": (REQUESTED_INDEX,),
}


def check_tables(deployed: DeployedStack) -> Iterator[Finding]:
    """Each table that the outputs name."""
    client = deployed.connection.client("dynamodb")
    for name in deployed.table_names:
        table = deployed.connection.outputs.get(f"{pascal_case(name)}TableName")
        if table is None:
            continue
        described: AwsDescription = client.describe_table(TableName=table)["Table"]
        if faults := list(_faults(name, described)):
            yield failed(f"table {name}", "; ".join(faults), _DEPLOY)
        else:
            yield passed(f"table {name}", "active, with its indexes")
        if name == _JOBS:
            yield _check_identity(client, table, deployed.now)
        if deployed.connection.is_local:
            continue  # on one machine nothing lasts: no rows expire, and none are restored
        yield from _check_recovery(client, name, table)
        if name == _JOBS:
            yield _check_expiry(client, table)


def _faults(name: str, described: AwsDescription) -> Iterator[str]:
    if described["TableStatus"] not in {"ACTIVE", "UPDATING"}:
        yield f"it is {described['TableStatus']}"
    there = {
        one["IndexName"]: one.get("IndexStatus", "ACTIVE")  # the local engine does not say
        for one in described.get("GlobalSecondaryIndexes", [])
    }
    for index in INDEXES.get(name, ()):
        if there.get(index) != "ACTIVE":
            yield f"its index {index} is {there.get(index, 'missing')}"
    stream = described.get("StreamSpecification", {})
    if name == _JOBS and stream.get("StreamViewType") != "NEW_AND_OLD_IMAGES":
        yield "its stream does not show old and new rows, so the history is not written"


def _check_identity(client: Any, table: str, now: datetime) -> Finding:  # noqa: ANN401  # boto3's client
    """Whether workers accept the table, by the same rule that they use."""
    check = f"identity of {_JOBS}"
    look = DynamoTableIdentity(client, table)
    item, facts = look.identity(), look.with_protection(look.facts())
    summary = f"table id {facts.table_id}; stream, TTL and point-in-time recovery are on"
    if (reason := blocking_reason(item, facts, now=now)) is not None or item is None:
        return failed(check, reason or "", "docs/operations.md#job-table-blocked")
    if item.restored_at is not None:
        summary = f"{summary}; restored at {format_minute(item.restored_at)}"
    return passed(check, f"{item.deployment}; {summary}")


def _check_expiry(client: Any, table: str) -> Finding:  # noqa: ANN401  # boto3's client
    check = f"expiry of {_JOBS}"
    found = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    if found.get("TimeToLiveStatus") not in {"ENABLED", "ENABLING"}:
        return failed(check, "rows never expire (TTL is off)", _DEPLOY)
    if found.get("AttributeName") != _TTL:
        return failed(check, f"rows expire by {found.get('AttributeName')}, not by {_TTL}", _DEPLOY)
    return passed(check, f"rows expire by {_TTL}")


def _check_recovery(client: Any, name: str, table: str) -> Iterator[Finding]:  # noqa: ANN401  # boto3's client
    found = client.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    state = found.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
    if state != "ENABLED":
        yield warned(
            f"table {name}",
            "it cannot be restored to a point in time",
            f"aws dynamodb update-continuous-backups --table-name {table} "
            "--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true",
        )
