"""Lambda: the custom resource that gives a new job table its identity when its stack is made."""

import json
import os
from typing import Any, Final
from urllib.request import Request, urlopen

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.clients import Clients
from oncely.adapters.deployment_identity import DynamoTableIdentity, new_identity
from oncely.services.set_up_table import FirstSetup
from oncely.settings import SetUpSettings
from oncely.telemetry import observed, telemetry

# The same for every table: a stack whose table changes gets an update, which does nothing.
RESOURCE_ID: Final = "oncely-deployment-identity"
_ANSWER_SECONDS: Final = 10


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Set up a table on Create; on Update and Delete do nothing, so that no new table is opened."""
    try:
        told = _set_up() if event["RequestType"] == "Create" else "nothing to do"
    except Exception as error:  # CloudFormation must hear of it, or it waits an hour
        _answer(event, "FAILED", f"{type(error).__name__}: {error}")
        raise
    telemetry().set_up(told)
    _answer(event, "SUCCESS", told)
    return {"set_up": told}


def _set_up() -> str:
    settings = SetUpSettings.from_env(os.environ)
    table = DynamoTableIdentity(Clients().dynamodb, settings.jobs_table)
    return str(FirstSetup(table, new_identity).run())


def _answer(event: dict[str, Any], status: str, told: str) -> None:
    answer = {
        "Status": status,
        "Reason": told,
        "PhysicalResourceId": event.get("PhysicalResourceId", RESOURCE_ID),
        **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
    }
    # CloudFormation's own signed address.
    request = Request(  # noqa: S310  # it is not ours to choose
        event["ResponseURL"], data=json.dumps(answer).encode(), method="PUT"
    )
    with urlopen(request, timeout=_ANSWER_SECONDS):  # noqa: S310  # the same
        pass
