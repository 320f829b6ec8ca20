"""Checks that the last deployment succeeded and that the stack has every output."""

from collections.abc import Iterator
from typing import Final

from pydantic import ValidationError

from oncely.cli.health_checks.deployed import DeployedStack
from oncely.contracts.settings import describe_job_settings, job_setting_output, pascal_case
from oncely.plugins.health import Finding, failed, passed, warned

_DEPLOY: Final = "deploy it again (`cdk deploy`, or `make deploy` in a clone of Oncely)"
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


def check_job_settings(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the settings that the contracts declare."""
    declared = (one.resources.settings for one in deployed.contracts)
    for settings_type in dict.fromkeys(filter(None, declared)):
        check = f"settings of {settings_type.__name__}"
        outputs, names = deployed.connection.outputs, settings_type.env_vars().items()
        given = {name: outputs.get(job_setting_output(field), "") for field, name in names}
        try:
            settings_type.read(given)
        except ValidationError as error:
            fix = "set it under [job_settings] in the stage's file, and deploy the stack again"
            yield failed(check, describe_job_settings(error), fix)
        else:
            yield passed(check, "complete")


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
