"""Lambda: the last step of a sweep; says what it did, and starts the next if more is due."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.system import SystemClock
from oncely.adapters.wiring import wire_finish
from oncely.domain.times import instant
from oncely.lambda_init import once
from oncely.services.finish_sweep import Finish
from oncely.services.sweep_report import ERROR
from oncely.settings import SweepSettings
from oncely.telemetry import observed, telemetry


@once
def finish() -> Finish:
    """Wire once per execution environment."""
    return wire_finish(SweepSettings.from_env(os.environ))


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer counts, and one short line for each job as far as they fit."""
    sweep = event["sweep"]
    done = finish().finish(sweep, event["results"])
    telemetry().swept(not_looked_at=done["counts"].get(ERROR, 0))
    if done["counts"] or not sweep["busy"]:  # else it is another sweep that must say so
        took = SystemClock().now() - instant(sweep["started_at"])
        telemetry().sweep_done(seconds=took.total_seconds())
    return done
