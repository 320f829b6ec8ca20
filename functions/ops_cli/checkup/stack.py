"""Whether the stack stands as it was last deployed, and names all that tools rely on."""

from collections.abc import Iterator
from typing import Final

from oncely.settings import camel
from ops_cli.checkup.deployed import Deployed
from ops_cli.checkup.findings import Finding, broken, ok, warning

_DEPLOY: Final = "deploy it again: `make deploy STAGE=…`"
_ROLLED_BACK: Final = "UPDATE_ROLLBACK_COMPLETE"


def stack(deployed: Deployed) -> Iterator[Finding]:
    """Its status."""
    about, status = f"stack {deployed.place.name}", str(deployed.stack["StackStatus"])
    if status == _ROLLED_BACK:
        yield warning(about, "the last deployment was rolled back", f"see why, then {_DEPLOY}")
    elif status.endswith("_IN_PROGRESS"):
        yield warning(about, f"a deployment is under way ({status})", "look again when it is over")
    elif status in {"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}:
        yield ok(about, status)
    else:
        yield broken(about, status, f"see its events in CloudFormation, then {_DEPLOY}")


def outputs(deployed: Deployed) -> Iterator[Finding]:
    """Everything that this version of the code needs a name for."""
    wanted = {
        *(f"{camel(name)}QueueUrl" for name in (*deployed.queue_names, "rejects", "dead_letter")),
        *(f"{camel(name)}TableName" for name in deployed.table_names),
        *(f"{camel(name)}SecretArn" for name in deployed.secret_names),
        *(
            "AdminUrl",
            "AlertTopicArn",
            "ArchiveBucketName",
            "EventBusName",
            "ReconcilerArn",
            "RowRetentionDays",
        ),
    }
    missing = sorted(wanted - set(deployed.place.outputs))
    if missing:
        yield broken("outputs", f"missing: {', '.join(missing)}", _DEPLOY)
    else:
        yield ok("outputs", f"all {len(wanted)} are there")
