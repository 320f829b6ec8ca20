"""Lambda: the schedule looks whether anything is due; the state machine gets a page of it."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App
from oncely.aws.ports import app_from_env
from oncely.jobs import CONTRACTS
from oncely.lambda_init import once
from oncely.reconcile.find_due_work import SweepRequest
from oncely.reconcile.resolve_group import split_into_groups
from oncely.signals import OLDEST_UNRESOLVED_AGE
from oncely.telemetry import instrumented, telemetry


@once
def get_app() -> App:
    """Built once per execution environment."""
    app = app_from_env(os.environ, CONTRACTS)
    _ = app.due_work_finder, app.ports.sweeps
    return app


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer the state machine with one page in groups, and the schedule by starting a sweep."""
    return _find_page(event) if "execution" in event else _start_if_due()


def _start_if_due() -> dict[str, Any]:
    telemetry().add_duration(OLDEST_UNRESOLVED_AGE, get_app().due_work_finder.oldest_age())
    found = get_app().due_work_finder.find(SweepRequest(limit=1))
    if found.table_refusal:
        telemetry().table_blocked(found.table_refusal)
    if found.error:
        telemetry().missing_job_scan_failed(found.error)
    if found.items:
        get_app().ports.sweeps.start({})
    else:
        telemetry().sweep_finished(seconds=0)
    return {"started": bool(found.items)}


def _find_page(event: dict[str, Any]) -> dict[str, Any]:
    sweep, execution = SweepRequest.parse(event["sweep"]), event["execution"]
    found = get_app().due_work_finder.find(sweep, holder=None if sweep.dry_run else execution)
    if found.table_refusal:
        telemetry().table_blocked(found.table_refusal)
    if found.error:
        telemetry().missing_job_scan_failed(found.error)
    telemetry().sweep_started(
        due_count=len(found.items),
        requested_count=found.requested_count,
        busy_shards=found.busy_shards,
    )
    return {
        "groups": split_into_groups(
            found, size=get_app().settings.sweep_group_size, dry_run=sweep.dry_run
        ),
        "sweep": {
            "execution": execution,
            "started_at": event["started_at"],
            "shards": found.shards,
            "busy": found.busy_shards,
            "from": sweep.since,
            "next": sweep.next_page(found.resume_at),
        },
    }
