"""Whether the tables keep, show and expire rows as the code counts on."""

from collections.abc import Iterator
from typing import Any, Final

from oncely.adapters import due_index, job_finder
from oncely.contracts.payment_charge import REQUESTED_INDEX
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
        job_finder.BY_STATUS,
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
        about = f"table {name}"
        described: Facts = client.describe_table(TableName=table)["Table"]
        faults = list(_faults(client, name, table, described))
        if faults:
            yield broken(about, "; ".join(faults), _DEPLOY)
        elif not _recovers(client, table):
            yield warning(
                about,
                "it cannot be restored to a point in time",
                f"aws dynamodb update-continuous-backups --table-name {table} "
                "--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true",
            )
        else:
            yield ok(about, "active, with its indexes and point-in-time recovery")


def _faults(client: Any, name: str, table: str, described: Facts) -> Iterator[str]:  # noqa: ANN401  # boto3's client
    if described["TableStatus"] not in {"ACTIVE", "UPDATING"}:
        yield f"it is {described['TableStatus']}"
    there = {
        one["IndexName"]: one["IndexStatus"] for one in described.get("GlobalSecondaryIndexes", [])
    }
    for index in INDEXES.get(name, ()):
        if there.get(index) != "ACTIVE":
            yield f"its index {index} is {there.get(index, 'missing')}"
    if name != _JOBS:
        return
    stream = described.get("StreamSpecification", {})
    if not stream.get("StreamEnabled") or "NEW" not in stream.get("StreamViewType", ""):
        yield "its stream is off, so ended jobs are published by the reconciler only"
    expiry = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    if expiry.get("TimeToLiveStatus") not in {"ENABLED", "ENABLING"}:
        yield "rows never expire (TTL is off)"
    elif expiry.get("AttributeName") != _TTL:
        yield f"rows expire by {expiry.get('AttributeName')}, not by {_TTL}"


def _recovers(client: Any, table: str) -> bool:  # noqa: ANN401  # boto3's client
    found = client.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    state = found.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
    return bool(state == "ENABLED")
