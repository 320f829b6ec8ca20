"""Lambda: the last step of a sweep; reports its results, and starts the next if more is due."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App, app_from_env
from oncely.core.text import parse_time
from oncely.handlers.lambda_init import once
from oncely.handlers.telemetry import instrumented, telemetry
from oncely.reconcile.resolve_group import ERROR, finish_sweep


@once
def get_app() -> App:
    """Build once per execution environment."""
    app = app_from_env(os.environ)
    _ = app.ports.sweep_leases, app.ports.sweeps
    return app


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Return counts, and one short line for each job as far as they fit."""
    sweep, ports = event["sweep"], get_app().ports
    done = finish_sweep(sweep, event["results"], leases=ports.sweep_leases, sweeps=ports.sweeps)
    telemetry().resolve_failures_counted(failed_count=done["counts"].get(ERROR, 0))
    if done["counts"] or not sweep["busy"]:  # otherwise the sweep with the lease reports it
        took = ports.clock.now() - parse_time(sweep["started_at"])
        telemetry().sweep_finished(seconds=took.total_seconds())
    return done
