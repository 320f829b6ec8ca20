"""Lambda: the first step of the reconciler; finds what is due and says how old it is."""

import os
from dataclasses import asdict
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.wiring import wire_finder
from oncely.contracts import CONTRACTS
from oncely.lambda_init import once
from oncely.services.find_due import Finder, Sweep
from oncely.settings import FinderSettings
from oncely.signals import OLDEST_UNRESOLVED_AGE
from oncely.telemetry import observed, telemetry


@once
def finder() -> Finder:
    """Wire once per execution environment."""
    return wire_finder(FinderSettings.from_env(os.environ, CONTRACTS), CONTRACTS)


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Find what a sweep should look at."""
    sweep = Sweep.of(event)
    found = finder().find(sweep)
    if found.refused:
        telemetry().table_refused(found.refused)
    if found.trouble:
        telemetry().could_not_look(found.trouble)
    telemetry().measure(OLDEST_UNRESOLVED_AGE, found.oldest_age)
    telemetry().found(due=len(found.items), asking=found.asking)
    items = [{**asdict(item), "dry_run": sweep.dry_run} for item in found.items]
    return {"items": items}
