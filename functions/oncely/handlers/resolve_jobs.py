"""Lambda: the step of a sweep that resolves one group of jobs concurrently."""

from datetime import timedelta
from random import sample
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from oncely.app import App
from oncely.handlers.lambda_init import once_with_app
from oncely.handlers.telemetry import instrumented, telemetry
from oncely.reconcile.find_due_work import SweepItem
from oncely.reconcile.resolve_group import GroupResolver, build_group_summary


@once_with_app
def get_group_resolver(app: App) -> GroupResolver:
    """Build once per execution environment."""
    return app.group_resolver


@instrumented
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Resolve the items of a group. An error with one is an outcome, not an exception."""
    dry_run = bool(event["dry_run"])
    clock = get_group_resolver().reconciler.clock
    left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    handled = get_group_resolver().resolve(
        # Shuffle: an item that kills this process then blocks different items each time.
        sample([SweepItem.from_json(item) for item in event["items"]], len(event["items"])),
        deadline=clock.now() + left,
        dry_run=dry_run,
        concurrency=event.get("at_once"),
    )
    telemetry().group_handled(handled, dry_run=dry_run)
    return build_group_summary(handled, max_bytes=event["bytes"])
