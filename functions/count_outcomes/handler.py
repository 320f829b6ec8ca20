"""Lambda: the last step of the reconciler; counts what a sweep did, and lists it by job."""

from collections import Counter
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.telemetry import observed


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer counts, and one short line for each job."""
    results = event.get("results", [])
    jobs = [
        {name: one.get(name) for name in ("key", "outcome", "old", "new", "reason")}
        for one in results
    ]
    return {"counts": dict(Counter(str(one["outcome"]) for one in jobs)), "jobs": jobs}
