"""Lambda: the custom resource that sets up a new job table, and checks it at each change."""

import json
import os
from typing import TYPE_CHECKING, Any, Final
from urllib.request import Request, urlopen

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App, app_from_env
from oncely.aws.clients import AwsClients
from oncely.core.aws_errors import AWS_ERRORS
from oncely.handlers.telemetry import instrumented, telemetry
from oncely.operate.set_up_table import (
    DeploymentPlan,
    IdentityChangedError,
    RemovedJobTypesError,
    refuse_removed_types,
)

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

# The same for every table, so a stack that replaces its table sends an Update, which checks it.
RESOURCE_ID: Final = "oncely-deployment-identity"
DEPLOYMENT_ATTRIBUTE: Final = "Deployment"
_RESPONSE_TIMEOUT_SECONDS: Final = 10


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Set up the table on Create, and check it on Update. Delete does nothing."""
    try:
        deployment = "" if event["RequestType"] == "Delete" else _open_table(event)
    except Exception as error:  # without a response, CloudFormation waits an hour
        _respond(event, "FAILED", f"{type(error).__name__}: {error}")
        raise
    telemetry().first_setup_finished(deployment)
    _respond(event, "SUCCESS", deployment or "nothing to do", {DEPLOYMENT_ATTRIBUTE: deployment})
    return {"deployment": deployment}


def _open_table(event: dict[str, Any]) -> str:
    app = app_from_env(os.environ)
    try:
        return _check_deployment(event, app)
    except (IdentityChangedError, RemovedJobTypesError):
        # The way back is to what ran before, and a failed rollback would block the stack.
        if not is_rolling_back(AwsClients().cloudformation, event["StackId"]):
            raise
        identity = app.ports.table_identity.identity()
        return identity.deployment if identity else ""


def _check_deployment(event: dict[str, Any], app: App) -> str:
    now, before = event["ResourceProperties"], event.get("OldResourceProperties", {})
    kept = {*now.get("JobTypes", ()), *now.get("RetiredJobTypes", ())}
    refuse_removed_types(set(before.get("JobTypes", ())) - kept)
    plan = DeploymentPlan(
        is_first=event["RequestType"] == "Create",
        names=now["Names"],
        previous=before.get("Names", {}),
        expected=now.get("Expected", {}),
    )
    return app.table_initializer.open_for(plan)


def _respond(
    event: dict[str, Any], status: str, reason: str, data: dict[str, str] | None = None
) -> None:
    response = {
        "Status": status,
        "Reason": reason,
        "Data": data or {},
        "PhysicalResourceId": event.get("PhysicalResourceId", RESOURCE_ID),
        **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
    }
    request = Request(  # noqa: S310  # CloudFormation chooses this signed URL
        event["ResponseURL"], data=json.dumps(response).encode(), method="PUT"
    )
    with urlopen(request, timeout=_RESPONSE_TIMEOUT_SECONDS):  # noqa: S310  # the same
        pass


def is_rolling_back(client: "CloudFormationClient", stack_id: str) -> bool:
    """Returns False also if CloudFormation does not answer."""
    try:
        (stack,) = client.describe_stacks(StackName=stack_id)["Stacks"]
    except AWS_ERRORS:
        return False
    return "ROLLBACK" in stack["StackStatus"]
