"""Whether the tables keep, show and expire rows as the code counts on."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from oncely.adapters import due_index, job_finder
from oncely.adapters.deployment_identity import DynamoTableIdentity
from oncely.contracts.payment_charge import REQUESTED_INDEX
from oncely.domain.table_identity import refusal
from oncely.domain.times import minute
from oncely.settings import camel
from ops_cli.checkup.deployed import Deployed, Facts
from ops_cli.checkup.findings import Finding, broken, ok, warning

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


def tables(deployed: Deployed) -> Iterator[Finding]:
    """Each table that the outputs name."""
    client = deployed.place.client("dynamodb")
    for name in deployed.table_names:
        table = deployed.place.outputs.get(f"{camel(name)}TableName")
        if table is None:
            continue
        described: Facts = client.describe_table(TableName=table)["Table"]
        if faults := list(_faults(name, described)):
            yield broken(f"table {name}", "; ".join(faults), _DEPLOY)
        else:
            yield ok(f"table {name}", "active, with its indexes")
        if name == _JOBS:
            yield _identity(client, table, deployed.now)
        if deployed.place.is_local:
            continue  # on one machine nothing lasts: no rows expire, and none are restored
        yield from _recovery(client, name, table)
        if name == _JOBS:
            yield _expiry(client, table)


def _faults(name: str, described: Facts) -> Iterator[str]:
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


def _identity(client: Any, table: str, now: datetime) -> Finding:  # noqa: ANN401  # boto3's client
    """Whether workers accept the table, by the same rule that they use."""
    about = f"identity of {_JOBS}"
    look = DynamoTableIdentity(client, table)
    item, facts = look.identity(), look.with_protection(look.facts())
    told = f"table id {facts.table_id}; stream, TTL and point-in-time recovery are on"
    if (reason := refusal(item, facts, now=now)) is not None or item is None:
        return broken(about, reason or "", "docs/operations.md#the-job-table-is-refused")
    if item.restored_at is not None:
        told = f"{told}; restored at {minute(item.restored_at)}"
    return ok(about, f"{item.deployment}; {told}")


def _expiry(client: Any, table: str) -> Finding:  # noqa: ANN401  # boto3's client
    about = f"expiry of {_JOBS}"
    found = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    if found.get("TimeToLiveStatus") not in {"ENABLED", "ENABLING"}:
        return broken(about, "rows never expire (TTL is off)", _DEPLOY)
    if found.get("AttributeName") != _TTL:
        return broken(about, f"rows expire by {found.get('AttributeName')}, not by {_TTL}", _DEPLOY)
    return ok(about, f"rows expire by {_TTL}")


def _recovery(client: Any, name: str, table: str) -> Iterator[Finding]:  # noqa: ANN401  # boto3's client
    found = client.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    state = found.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
    if state != "ENABLED":
        yield warning(
            f"table {name}",
            "it cannot be restored to a point in time",
            f"aws dynamodb update-continuous-backups --table-name {table} "
            "--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true",
        )
