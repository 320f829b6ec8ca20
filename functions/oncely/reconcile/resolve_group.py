"""Resolves a group of jobs concurrently, reports on the sweep, and ends it."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from oncely.alerts.budget import is_digest_key
from oncely.alerts.budgeted_notifier import BudgetedNotifier
from oncely.alerts.review_alerts import AlertDelivery, ReviewAlerter
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.core.keys import JobKey, job_type_of
from oncely.core.lifecycle import IN_REVIEW
from oncely.core.text import format_time, parse_time, support_line
from oncely.reconcile.find_due_work import DueWork, SweepItem
from oncely.reconcile.reconciler import HELD, ROW_MISSING, Reconciler, Resolution
from oncely.reconcile.step_functions import Sweeps
from oncely.reconcile.sweep_leases import SweepLeases

# The budget of a job of an unknown type, for which no provider is called.
_UNKNOWN_TYPE_DURATION: Final = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class HandledItem:
    """The result of one item. Without resolution and error, there was no time left for it."""

    key: JobKey
    resolution: Resolution | None = None
    alert_delivery: AlertDelivery | None = None
    error: Exception | None = None


@dataclass(frozen=True, kw_only=True)
class GroupResolver:
    """Resolves the items of one invocation, and returns when every thread has ended."""

    reconciler: Reconciler
    alerter: ReviewAlerter
    notifier: BudgetedNotifier
    concurrency: int = 10

    def resolve(
        self,
        items: Sequence[SweepItem],
        *,
        deadline: datetime,
        dry_run: bool = False,
        concurrency: int | None = None,
    ) -> list[HandledItem]:
        """Resolve each item for which there is time. The others stay due."""

        def one(item: SweepItem) -> HandledItem:
            return self._resolve_item(item, deadline, dry_run=dry_run)

        threads = min(concurrency or self.concurrency, len(items))
        if threads <= 1:
            return [one(item) for item in items]
        with ThreadPoolExecutor(max_workers=threads) as pool:
            return list(pool.map(one, items))

    def _resolve_item(self, item: SweepItem, deadline: datetime, *, dry_run: bool) -> HandledItem:
        key = item.key
        try:
            if self.reconciler.clock.now() + self._max_duration(key) > deadline:
                return HandledItem(key=key)
            if is_digest_key(key):
                return self._send_digest(key, dry_run=dry_run)
            done = self.reconciler.resolve(
                key,
                message=item.message,
                on_demand=item.on_demand,
                dry_run=dry_run,
                deadline=deadline,
            )
            return HandledItem(
                key=key,
                resolution=done,
                alert_delivery=self._alert(done) if done.needs_alert else None,
            )
        except Exception as error:  # noqa: BLE001  # the others continue, and the sweep lists it
            if not dry_run:
                self._postpone(key)
            return HandledItem(key=key, error=error)

    def _send_digest(self, key: JobKey, *, dry_run: bool) -> HandledItem:
        reason = "alerts that were not sent individually"
        resolution = Resolution(key=key, outcome="digest", reason=reason)
        delivery = None if dry_run else self.notifier.send_digest(key)
        return HandledItem(key=key, resolution=resolution, alert_delivery=delivery)

    def _max_duration(self, key: JobKey) -> timedelta:
        try:
            return self.reconciler.registry.contract(job_type_of(key)).max_duration()
        except InvalidInputError:
            return _UNKNOWN_TYPE_DURATION

    def _alert(self, resolution: Resolution) -> AlertDelivery:
        if resolution.outcome != ROW_MISSING:
            return self.alerter.alert_if_due(resolution.key)
        if not self.alerter.alert_orphaned_outcome(resolution.key, resolution.reason):
            # No row stays due for it, so this error is the only trace.
            raise UnavailableError(
                f"no alert was delivered that {resolution.key} has no row: {resolution.reason}"
            )
        return AlertDelivery.DELIVERED

    def _postpone(self, key: JobKey) -> None:
        """Postpone a job that failed, so that it does not block the others."""
        with suppress(Exception):  # it is listed as failed, and stays due
            row = self.reconciler.store.get(key)
            if row is not None and row.due_at is not None:
                self.reconciler.hold_row(row)


ERROR: Final = "error"  # the job could not be processed; it stays due
OUT_OF_TIME: Final = "later"  # no time was left; it stays due
NO_CHANGE: Final = "nothing"

_TIME_PRECISION: Final = timedelta(milliseconds=1)  # of a due time
# Step Functions passes at most 256 kB between states, and the items of a page need a part of it.
# 200 lines with keys of 200 bytes fit.
MAX_RESULT_BYTES: Final = 140_000
MAX_REASON_BYTES: Final = 400

# They need action. Listed first if not all lines fit.
LISTED_FIRST: Final = IN_REVIEW | {ERROR}


def split_into_groups(due_work: DueWork, *, size: int, dry_run: bool) -> list[dict[str, Any]]:
    """The inputs of the group workers, each with its share of the result size."""
    parts = [due_work.items[at : at + size] for at in range(0, len(due_work.items), size)]
    return [
        {
            "items": [item.to_json() for item in part],
            "dry_run": dry_run,
            "bytes": MAX_RESULT_BYTES // len(parts),
        }
        for part in parts
    ]


def build_group_summary(handled: Iterable[HandledItem], *, max_bytes: int) -> dict[str, Any]:
    """The output of a group: all counts, and as many lines as fit."""
    lines = sorted(map(_result_line, handled), key=lambda line: line["outcome"] not in LISTED_FIRST)
    counts = Counter(str(line["outcome"]) for line in lines)
    listed, size = [], 0
    for line in lines:
        size += len(json.dumps(line)) + 2
        if size > max_bytes:
            break
        listed.append(line)
    return {"counts": dict(counts), "jobs": listed}


def build_report(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The output of a sweep from the outputs of its groups, some of which may have failed."""
    counts: Counter[str] = Counter()
    jobs: list[Mapping[str, Any]] = []
    for result in results:
        lost = [_error_line(item["key"], result["error"]) for item in result.get("items", ())]
        counts += Counter({ERROR: len(lost), **result.get("counts", {})})
        jobs += (*lost, *result.get("jobs", ()))
    not_listed = counts.total() - len(jobs)
    return {
        "counts": dict(counts),
        "jobs": jobs,
        **({"not_listed": not_listed} if not_listed else {}),
    }


def made_progress(counts: Mapping[str, int]) -> bool:
    """Whether a sweep resolved anything, so that repeating it makes sense."""
    return any(number for outcome, number in counts.items() if outcome not in _NO_PROGRESS_OUTCOMES)


_NO_PROGRESS_OUTCOMES: Final = frozenset({ERROR, OUT_OF_TIME, NO_CHANGE, HELD})


def _result_line(item: HandledItem) -> dict[str, Any]:
    if item.error is not None:
        return _error_line(item.key, f"{type(item.error).__name__}: {item.error}")
    if item.resolution is None:
        return {"key": item.key, "outcome": OUT_OF_TIME, "reason": "there was no time left for it"}
    line = {
        "key": item.key,
        "outcome": item.resolution.outcome,
        "old": item.resolution.from_status,
        "new": item.resolution.to_status,
        "reason": truncate_reason(item.resolution.reason),
        "alert": item.alert_delivery and str(item.alert_delivery),
    }
    return {name: value for name, value in line.items() if value}


def _error_line(key: str, reason: str) -> dict[str, Any]:
    return {"key": key, "outcome": ERROR, "reason": truncate_reason(reason)}


def truncate_reason(reason: str) -> str:
    """Bound a reason and mask email addresses: executions are kept and widely readable."""
    text = support_line(reason)
    while len(json.dumps(text)) > MAX_REASON_BYTES:
        text = text[: len(text) * 3 // 4]
    return text


@dataclass(frozen=True, kw_only=True)
class SweepFinisher:
    """Ends a sweep after its groups."""

    leases: SweepLeases
    sweeps: Sweeps

    def finish(
        self, sweep: Mapping[str, Any], results: Iterable[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Release the leases, start the next page if there is one, and report.

        The next page begins at a later due time, so rows that always fail cannot loop. If many rows
        became due at once, it begins at the same time; without progress, just after it: someone
        may have inserted them to hide the rows behind.
        """
        done = build_report(results)
        for shard in sweep["shards"]:
            self.leases.release(shard, holder=sweep["execution"])
        next_sweep = sweep["next"]
        if next_sweep is not None:
            if next_sweep["from"] == sweep["from"] and not made_progress(done["counts"]):
                after = parse_time(next_sweep["from"]) + _TIME_PRECISION
                next_sweep = {**next_sweep, "from": format_time(after)}
            self.sweeps.start(next_sweep)
        return {**done, "busy_shards": sweep["busy"]} if sweep["busy"] else done
