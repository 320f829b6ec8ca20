"""Checks that tables have the indexes, stream, TTL and recovery that the code relies on."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from oncely.aws import dynamodb_due_index as due_index
from oncely.aws import dynamodb_job_index as job_finder
from oncely.aws.deployment_identity import DynamoTableIdentity
from oncely.cli.health_checks.deployed import AwsDescription, DeployedStack
from oncely.cli.health_checks.findings import Finding, failed, passed, warned
from oncely.domain.table_identity import blocking_reason
from oncely.domain.text import format_minute
from oncely.jobs.payment_charge import CHARGE_SHARD, REQUESTED_INDEX
from oncely.settings import pascal_case

_JOBS: Final = "jobs"
_TTL: Final = "expires_at"
_DEPLOY: Final = "deploy the stack again"
# A sample: a shop may have millions of orders.
MAX_ORDERS: Final = 5_000
_PAGE_SIZE: Final = 1_000
_MAX_SHOWN: Final = 3
# The indexes that the code queries. An existing table may have more.
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
    """Check each table that the outputs name."""
    client = deployed.connection.client("dynamodb")
    for name in deployed.table_names:
        table = deployed.connection.outputs.get(f"{pascal_case(name)}TableName")
        if table is None:
            continue
        described: AwsDescription = client.describe_table(TableName=table)["Table"]
        if faults := list(_faults(name, described)):
            yield failed(f"table {name}", "; ".join(faults), _DEPLOY)
        else:
            yield passed(f"table {name}", "active, with all indexes")
        if name == _JOBS:
            yield _check_identity(client, table, deployed.now)
        if deployed.connection.is_local:
            continue  # the local stack neither expires nor restores rows
        yield from _check_recovery(client, name, table)
        if name == _JOBS:
            yield _check_expiry(client, table)


def _faults(name: str, described: AwsDescription) -> Iterator[str]:
    if described["TableStatus"] not in {"ACTIVE", "UPDATING"}:
        yield f"status is {described['TableStatus']}"
    there = {
        one["IndexName"]: one.get("IndexStatus", "ACTIVE")  # the local engine omits it
        for one in described.get("GlobalSecondaryIndexes", [])
    }
    for index in INDEXES.get(name, ()):
        if there.get(index) != "ACTIVE":
            yield f"index {index} is {there.get(index, 'missing')}"
    stream = described.get("StreamSpecification", {})
    if name == _JOBS and stream.get("StreamViewType") != "NEW_AND_OLD_IMAGES":
        yield "stream does not show old and new rows, so the history is not written"


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


def _check_expiry(client: Any, table: str) -> Finding:  # noqa: ANN401  # boto3's client
    check = "job table TTL"
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


def check_orders(deployed: DeployedStack) -> Iterator[Finding]:
    """Check a sample of the orders for charge requests that the reconciler cannot find."""
    table = deployed.connection.outputs.get("OrdersTableName")
    if table is None:
        return
    read, found = 0, []
    pages = (
        deployed.connection.client("dynamodb")
        .get_paginator("scan")
        .paginate(
            TableName=table,
            FilterExpression="attribute_exists(#requested) AND attribute_not_exists(#shard)",
            ProjectionExpression="order_id",
            ExpressionAttributeNames={"#requested": "charge_requested_at", "#shard": CHARGE_SHARD},
            PaginationConfig={"PageSize": _PAGE_SIZE},
        )
    )
    for page in pages:
        read += page["ScannedCount"]
        found += [row["order_id"]["S"] for row in page["Items"]]
        if read >= MAX_ORDERS:
            break
    check = "orders with a charge request"
    if found:
        yield warned(
            check,
            f"{len(found)} of {read} sampled orders have charge_requested_at without "
            f"{CHARGE_SHARD} ({', '.join(found[:_MAX_SHOWN])}): the reconciler cannot find them "
            "if their message is lost",
            f"set {CHARGE_SHARD} in the producer too; see docs/send-a-job.md",
        )
    else:
        yield passed(check, f"{read} sampled, none without {CHARGE_SHARD}")
