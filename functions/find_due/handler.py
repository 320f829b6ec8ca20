"""Lambda: the schedule looks whether anything is due; the state machine gets a page of it."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.adapters.wiring import wire_finder, wire_sweeps
from oncely.contracts import CONTRACTS
from oncely.lambda_init import once
from oncely.ports import Sweeps
from oncely.services.find_due import Finder, Sweep
from oncely.services.sweep_report import groups
from oncely.settings import FinderSettings
from oncely.signals import OLDEST_UNRESOLVED_AGE
from oncely.telemetry import observed, telemetry


@once
def settings() -> FinderSettings:
    """Read once per execution environment."""
    return FinderSettings.from_env(os.environ, CONTRACTS)


@once
def finder() -> Finder:
    """Wire once per execution environment."""
    return wire_finder(settings(), CONTRACTS)


@once
def sweeps() -> Sweeps:
    """Wire once per execution environment."""
    return wire_sweeps(settings())


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer the state machine with one page in groups, and the schedule by starting a sweep."""
    return _page(event) if "execution" in event else _start_if_due()


def _start_if_due() -> dict[str, Any]:
    telemetry().measure(OLDEST_UNRESOLVED_AGE, finder().oldest_age())
    found = finder().find(Sweep(limit=1))
    if found.refused:
        telemetry().table_refused(found.refused)
    if found.trouble:
        telemetry().could_not_look(found.trouble)
    if found.items:
        sweeps().start({})
    else:
        telemetry().sweep_done(seconds=0)
    return {"started": bool(found.items)}


def _page(event: dict[str, Any]) -> dict[str, Any]:
    sweep, execution = Sweep.of(event["sweep"]), event["execution"]
    found = finder().find(sweep, holder=None if sweep.dry_run else execution)
    if found.refused:
        telemetry().table_refused(found.refused)
    if found.trouble:
        telemetry().could_not_look(found.trouble)
    telemetry().found(due=len(found.items), asking=found.asking, busy=found.busy)
    return {
        "groups": groups(found, size=settings().sweep_group_size, dry_run=sweep.dry_run),
        "sweep": {
            "execution": execution,
            "started_at": event["started_at"],
            "shards": found.shards,
            "busy": found.busy,
            "from": sweep.since,
            "next": sweep.next_page(found.resume_at),
        },
    }
