"""Lambda: the last step of a sweep; reports its results, and starts the next if more is due."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import app_from_env
from oncely.core.text import parse_time
from oncely.handlers.lambda_init import once
from oncely.handlers.telemetry import instrumented, telemetry
from oncely.ports import SystemClock
from oncely.reconcile.resolve_group import ERROR, SweepFinisher


@once
def get_finisher() -> SweepFinisher:
    """Build once per execution environment."""
    return app_from_env(os.environ).sweep_finisher


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Return counts, and one short line for each job as far as they fit."""
    sweep = event["sweep"]
    done = get_finisher().finish(sweep, event["results"])
    telemetry().resolve_failures_counted(failed_count=done["counts"].get(ERROR, 0))
    if done["counts"] or not sweep["busy"]:  # otherwise the sweep with the lease reports it
        took = SystemClock().now() - parse_time(sweep["started_at"])
        telemetry().sweep_finished(seconds=took.total_seconds())
    return done
