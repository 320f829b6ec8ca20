"""Lambda: the custom resource that gives a new job table its identity when its stack is made."""

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

# The same for every table: a stack whose table changes gets an update, which does nothing.
RESOURCE_ID: Final = "oncely-deployment-identity"
_RESPONSE_TIMEOUT_SECONDS: Final = 10


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Set up a table on Create; on Update and Delete do nothing, so that no new table is opened."""
    try:
        outcome = _set_up() if event["RequestType"] == "Create" else "nothing to do"
    except Exception as error:  # CloudFormation must hear of it, or it waits an hour
        _respond(event, "FAILED", f"{type(error).__name__}: {error}")
        raise
    telemetry().first_setup_finished(outcome)
    _respond(event, "SUCCESS", outcome)
    return {"set_up": outcome}


def _set_up() -> str:
    ports = AwsPorts(Settings.from_env(os.environ))
    return str(TableInitializer(ports.table_identity, new_identity).run())


def _respond(event: dict[str, Any], status: str, reason: str) -> None:
    answer = {
        "Status": status,
        "Reason": reason,
        "PhysicalResourceId": event.get("PhysicalResourceId", RESOURCE_ID),
        **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
    }
    # CloudFormation's own signed address.
    request = Request(  # noqa: S310  # it is not ours to choose
        event["ResponseURL"], data=json.dumps(answer).encode(), method="PUT"
    )
    with urlopen(request, timeout=_RESPONSE_TIMEOUT_SECONDS):  # noqa: S310  # the same
        pass
