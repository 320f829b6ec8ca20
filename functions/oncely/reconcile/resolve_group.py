"""Resolves a group of jobs concurrently, reports on the sweep, and ends it."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from oncely.alerts.budget import AlertDelivery
from oncely.alerts.review_alerts import ReviewAlerter
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey, job_type_of
from oncely.core.lifecycle import IN_REVIEW
from oncely.core.text import format_time, parse_time, support_line
from oncely.reconcile.find_due_work import DueWork, SweepItem
from oncely.reconcile.reconciler import HELD, ROW_MISSING, Reconciler, Resolution
from oncely.reconcile.sweeps import SweepLeases, Sweeps

# The budget of a job of an unknown type, for which no provider is called.
_UNKNOWN_TYPE_DURATION: Final = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class HandledItem:
    """The result of one item. Without resolution and error, there was no time left for it."""

    key: JobKey
    resolution: Resolution | None = None
    alert_delivery: AlertDelivery | None = None
    review: JobRow | None = None  # reserved for the summary: the budget of its kind is used up
    error: Exception | None = None


@dataclass(frozen=True, kw_only=True)
class GroupResolver:
    """Resolves the items of one invocation, and returns when every thread has ended."""

    reconciler: Reconciler
    alerter: ReviewAlerter
    concurrency: int = 10

    def resolve(
        self,
        items: Sequence[SweepItem],
        *,
        deadline: datetime,
        dry_run: bool = False,
        concurrency: int | None = None,
    ) -> list[HandledItem]:
        """Resolve each item for which there is time. The others stay due.

        Jobs in review that exceed the budget of alerts get one summary. A sweep has them in one
        group.
        """

        def one(item: SweepItem) -> HandledItem:
            return self._resolve_item(item, deadline, dry_run=dry_run)

        threads = min(concurrency or self.concurrency, len(items))
        if threads <= 1:
            return self._summarize([one(item) for item in items])
        with ThreadPoolExecutor(max_workers=threads) as pool:
            return self._summarize(list(pool.map(one, items)))

    def _resolve_item(self, item: SweepItem, deadline: datetime, *, dry_run: bool) -> HandledItem:
        key = item.key
        try:
            if self.reconciler.clock.now() + self._max_duration(key) > deadline:
                return HandledItem(key=key)
            done = self.reconciler.resolve(
                key,
                message=item.message,
                on_demand=item.on_demand,
                dry_run=dry_run,
                deadline=deadline,
            )
            if not done.needs_alert:
                return HandledItem(key=key, resolution=done)
            return self._alert(done, is_alert=item.is_alert)
        except Exception as error:  # noqa: BLE001  # the others continue, and the sweep lists it
            if not dry_run:
                self._postpone(key)
            return HandledItem(key=key, error=error)

    def _max_duration(self, key: JobKey) -> timedelta:
        try:
            return self.reconciler.registry.contract(job_type_of(key)).max_duration()
        except InvalidInputError:
            return _UNKNOWN_TYPE_DURATION

    def _alert(self, done: Resolution, *, is_alert: bool) -> HandledItem:
        handled = HandledItem(key=done.key, resolution=done, alert_delivery=AlertDelivery.NOT_DUE)
        if done.outcome == ROW_MISSING:
            if not self.alerter.alert_orphaned_outcome(done.key, done.reason):
                # No row stays due for it, so this error is the only trace.
                raise UnavailableError(
                    f"no alert was delivered that {done.key} has no row: {done.reason}"
                )
            return replace(handled, alert_delivery=AlertDelivery.DELIVERED)
        if (review := self.alerter.reserve(done.key)) is None:
            return handled
        delivery = self.alerter.deliver(review)
        # A job that needs review only now is in the summary of the next sweep.
        in_summary = is_alert and delivery is AlertDelivery.OVER_BUDGET
        return replace(handled, alert_delivery=delivery, review=review if in_summary else None)

    def _summarize(self, handled: list[HandledItem]) -> list[HandledItem]:
        reviews = [one.review for one in handled if one.review is not None]
        if not reviews:
            return handled
        try:
            delivery, error = self.alerter.summarize(reviews), None
        except Exception as failure:  # noqa: BLE001  # the jobs stay due, and the sweep lists them
            delivery, error = AlertDelivery.FAILED, failure
        return [
            replace(one, alert_delivery=delivery, error=error) if one.review is not None else one
            for one in handled
        ]

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
    alerts = [item for item in due_work.items if item.is_alert]  # in one group, for one summary
    others = [item for item in due_work.items if not item.is_alert]
    parts = [others[at : at + size] for at in range(0, len(others), size)]
    parts += [alerts] if alerts else []
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


def finish_sweep(
    sweep: Mapping[str, Any],
    results: Iterable[Mapping[str, Any]],
    *,
    leases: SweepLeases,
    sweeps: Sweeps,
) -> dict[str, Any]:
    """Release the leases of a sweep, start the next page if there is one, and report.

    The next page begins at a later due time, so rows that always fail cannot loop. If many rows
    became due at once, it begins at the same time; without progress, just after it: someone may
    have inserted them to hide the rows behind.
    """
    done = build_report(results)
    for shard in sweep["shards"]:
        leases.release(shard, holder=sweep["execution"])
    next_sweep = sweep["next"]
    if next_sweep is not None:
        if next_sweep["from"] == sweep["from"] and not made_progress(done["counts"]):
            after = parse_time(next_sweep["from"]) + _TIME_PRECISION
            next_sweep = {**next_sweep, "from": format_time(after)}
        sweeps.start(next_sweep)
    return {**done, "busy_shards": sweep["busy"]} if sweep["busy"] else done
