"""Lambda: the step of the reconciler that resolves one job; the state machine branches on it."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.wiring import wire_reconciler
from oncely.contracts import CONTRACTS
from oncely.domain.keys import JobKey
from oncely.lambda_init import once
from oncely.services.reconcile import Reconciler
from oncely.services.sweep_report import failed, line
from oncely.settings import ResolverSettings
from oncely.telemetry import observed, telemetry


@once
def reconciler() -> Reconciler:
    """Wire once per execution environment."""
    return wire_reconciler(ResolverSettings.from_env(os.environ, CONTRACTS), CONTRACTS)


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Resolve one item of a sweep; what went wrong with it is an outcome as well."""
    dry_run = bool(event.get("dry_run"))
    try:
        done = reconciler().resolve(
            JobKey(event["key"]),
            message=event.get("message"),
            asked_for=bool(event.get("asked_for")),
            dry_run=dry_run,
        )
    except Exception as error:  # noqa: BLE001  # its neighbours go on, and the sweep lists it
        telemetry().could_not_resolve(event["key"], error)
        return failed(event["key"], error)
    telemetry().resolved(done, dry_run=dry_run)
    return line(done)
