"""Checks that the last deployment succeeded and that the stack has every output."""

from collections.abc import Iterator
from typing import Final

from oncely.cli.health_checks.deployed import DeployedStack
from oncely.health import Finding, failed, passed, warned
from oncely.settings import pascal_case

_DEPLOY: Final = "deploy it again with `make deploy STAGE=…`"
_ROLLED_BACK: Final = "UPDATE_ROLLBACK_COMPLETE"


def check_stack(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the stack's status."""
    check, status = f"stack {deployed.connection.name}", str(deployed.stack["StackStatus"])
    if status == _ROLLED_BACK:
        yield warned(
            check,
            "the last deployment was rolled back",
            f"read its events in CloudFormation, then {_DEPLOY}",
        )
    elif status.endswith("_IN_PROGRESS"):
        yield warned(check, f"a deployment is running ({status})", "check again when it has ended")
    elif status in {"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}:
        yield passed(check, status)
    else:
        yield failed(check, status, f"read its events in CloudFormation, then {_DEPLOY}")


def check_outputs(deployed: DeployedStack) -> Iterator[Finding]:
    """Check for every output that this version of the code needs."""
    queues = (*deployed.queue_names, "rejects", "dead_letter")
    wanted = {
        *(f"{pascal_case(name)}QueueUrl" for name in queues),
        *(f"{pascal_case(name)}TableName" for name in deployed.table_names),
        *(f"{pascal_case(name)}SecretArn" for name in deployed.secret_names),
        *("AdminUrl", "AlertTopicArn", "ArchiveBucketName", "EventBusName"),
        *("ReconcilerArn", "RowRetentionDays"),
    }
    if missing := sorted(wanted - set(deployed.connection.outputs)):
        yield failed("outputs", f"missing: {', '.join(missing)}", _DEPLOY)
    else:
        yield passed("outputs", f"all {len(wanted)} exist")
