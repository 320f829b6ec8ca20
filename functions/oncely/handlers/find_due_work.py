"""Lambda: starts a sweep on schedule if work is due, and finds pages of due work for it."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App
from oncely.aws.signals import OLDEST_UNRESOLVED_AGE
from oncely.handlers.lambda_init import once_with_app
from oncely.handlers.telemetry import instrumented, telemetry
from oncely.reconcile.find_due_work import DueWork, SweepRequest
from oncely.reconcile.resolve_group import split_into_groups


@once_with_app
def get_app(app: App) -> App:
    """Build once per execution environment."""
    ports = app.ports
    _ = app.due_work_finder, ports.job_store(), ports.due_index, ports.sweep_leases, ports.sweeps
    _ = ports.table_guard, ports.gate
    return app


@instrumented
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Return one page in groups to the state machine, or start a sweep for the schedule."""
    return _find_page(event) if "execution" in event else _start_if_due()


def _start_if_due() -> dict[str, Any]:
    if age := get_app().due_work_finder.oldest_age():  # a metric costs money while it is emitted
        telemetry().add_duration(OLDEST_UNRESOLVED_AGE, age)
    now = get_app().ports.clock.now()
    telemetry().gates_checked(get_app().ports.gate.snapshot(now), now=now)
    due_work = get_app().due_work_finder.find(SweepRequest(limit=1))
    _report_problems(due_work)
    if due_work.items:
        get_app().ports.sweeps.start({})
    else:
        telemetry().sweep_finished(seconds=0)
    return {"started": bool(due_work.items)}


def _find_page(event: dict[str, Any]) -> dict[str, Any]:
    sweep, execution = SweepRequest.parse(event["sweep"]), event["execution"]
    due_work = get_app().due_work_finder.find(sweep, holder=None if sweep.dry_run else execution)
    _report_problems(due_work)
    telemetry().sweep_started(
        due_count=len(due_work.items),
        requested_count=due_work.requested_count,
        busy_shards=due_work.busy_shards,
    )
    return {
        "groups": split_into_groups(
            due_work, size=get_app().settings.sweep_group_size, dry_run=sweep.dry_run
        ),
        "sweep": {
            "execution": execution,
            "started_at": event["started_at"],
            "shards": due_work.shards,
            "busy": due_work.busy_shards,
            "from": sweep.since,
            "next": sweep.next_page(due_work.resume_at),
        },
    }


def _report_problems(due_work: DueWork) -> None:
    if due_work.table_refusal:
        telemetry().table_blocked(due_work.table_refusal)
    if due_work.error:
        telemetry().missing_job_scan_failed(due_work.error)
