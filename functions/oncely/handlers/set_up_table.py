"""Lambda: the custom resource that gives the job table of a new stack its identity."""

import json
import os
from typing import Any, Final
from urllib.request import Request, urlopen

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.aws.deployment_identity import new_identity
from oncely.aws.ports import AwsPorts
from oncely.operate.set_up_table import TableInitializer
from oncely.settings import Settings
from oncely.telemetry import instrumented, telemetry

# The same for every table, so a stack that replaces its table sends an Update, which does nothing.
RESOURCE_ID: Final = "oncely-deployment-identity"
_RESPONSE_TIMEOUT_SECONDS: Final = 10


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Set up the table on Create. Update and Delete do nothing, so they never open a new table."""
    try:
        outcome = _set_up() if event["RequestType"] == "Create" else "nothing to do"
    except Exception as error:  # without a response, CloudFormation waits an hour
        _respond(event, "FAILED", f"{type(error).__name__}: {error}")
        raise
    telemetry().first_setup_finished(outcome)
    _respond(event, "SUCCESS", outcome)
    return {"set_up": outcome}


def _set_up() -> str:
    ports = AwsPorts(Settings.from_env(os.environ))
    return str(TableInitializer(ports.table_identity, new_identity).run())


def _respond(event: dict[str, Any], status: str, reason: str) -> None:
    response = {
        "Status": status,
        "Reason": reason,
        "PhysicalResourceId": event.get("PhysicalResourceId", RESOURCE_ID),
        **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
    }
    request = Request(  # noqa: S310  # CloudFormation chooses this signed URL
        event["ResponseURL"], data=json.dumps(response).encode(), method="PUT"
    )
    with urlopen(request, timeout=_RESPONSE_TIMEOUT_SECONDS):  # noqa: S310  # the same
        pass
