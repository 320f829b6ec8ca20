"""Lambda: the last step of the reconciler; counts what a sweep did, and lists it by job."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.services.sweep_report import ERROR, report
from oncely.telemetry import observed, telemetry


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer counts, and one short line for each job."""
    done = report(event["results"])
    telemetry().swept(not_looked_at=done["counts"].get(ERROR, 0))
    return done
