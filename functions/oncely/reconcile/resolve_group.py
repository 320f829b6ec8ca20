"""Resolves a group of items side by side; one that fails never stops its neighbours."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from oncely.domain.errors import InvalidInputError, UnavailableError
from oncely.domain.keys import JobKey, job_type_of
from oncely.domain.lifecycle import Status
from oncely.domain.text import redacted_line
from oncely.ports import SweepLeases, Sweeps
from oncely.reconcile.find_due_work import DueWork, SweepItem
from oncely.reconcile.reconciler import ROW_MISSING, Reconciler, Resolution
from oncely.run.review_alerts import AlertDelivery, ReviewAlerter

# What a job of an unknown type may take: no provider is asked for it.
_UNKNOWN_TYPE_DURATION: Final = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class HandledItem:
    """What became of one item; neither `done` nor `error`: there was no time left for it."""

    key: JobKey
    resolution: Resolution | None = None
    alert_delivery: AlertDelivery | None = None
    error: Exception | None = None


@dataclass(frozen=True, kw_only=True)
class GroupResolver:
    """Resolves the items of one invocation, and returns only when every thread has ended."""

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
        """Resolve each item for which there is time; what is left stays due."""

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
            done = self.reconciler.resolve(
                key, message=item.message, on_demand=item.on_demand, dry_run=dry_run
            )
            return HandledItem(
                key=key,
                resolution=done,
                alert_delivery=self._alert(done) if done.needs_alert else None,
            )
        except Exception as error:  # noqa: BLE001  # its neighbours go on, and the sweep lists it
            if not dry_run:
                self._postpone(key)
            return HandledItem(key=key, error=error)

    def _max_duration(self, key: JobKey) -> timedelta:
        try:
            return self.reconciler.registry.contract(job_type_of(key)).policy.max_duration
        except InvalidInputError:
            return _UNKNOWN_TYPE_DURATION

    def _alert(self, resolution: Resolution) -> AlertDelivery:
        if resolution.outcome != ROW_MISSING:
            return self.alerter.alert_if_due(resolution.key)
        if not self.alerter.alert_orphaned_outcome(resolution.key, resolution.reason):
            # No row stays due for it, so this is the only trace.
            raise UnavailableError(
                f"nobody could be told that {resolution.key} has no row: {resolution.reason}"
            )
        return AlertDelivery.DELIVERED

    def _postpone(self, key: JobKey) -> None:
        """Let what cannot be looked at wait for a while: it must not stand before all others."""
        with suppress(Exception):  # it is listed as failed anyway, and stays due
            row = self.reconciler.store.get(key)
            if row is not None and row.due_at is not None:
                self.reconciler.hold_row(row)


ERROR: Final = "error"  # nobody could say anything about the job; it stays due
OUT_OF_TIME: Final = "later"  # there was no time left for it; it stays due
NO_CHANGE: Final = "nothing"

GROUP_SIZE: Final = 25
# Step Functions hands on 256 kB at most, and the items of a page need their part of it. Two
# hundred lines, each with a key of 200 bytes, fit.
MAX_RESULT_BYTES: Final = 140_000
MAX_REASON_BYTES: Final = 400

# What people want to see if not all can be listed.
_LISTED_FIRST: Final = frozenset({ERROR, Status.NEEDS_REVIEW})


def split_into_groups(due_work: DueWork, *, size: int, dry_run: bool) -> list[dict[str, Any]]:
    """The inputs of the group workers, each with its part of what a sweep may say."""
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
    """What a group says: counts of all, and lines of as many as fit."""
    lines = sorted(
        map(_result_line, handled), key=lambda line: line["outcome"] not in _LISTED_FIRST
    )
    counts = Counter(str(line["outcome"]) for line in lines)
    listed, size = [], 0
    for line in lines:
        size += len(json.dumps(line)) + 2
        if size > max_bytes:
            break
        listed.append(line)
    return {"counts": dict(counts), "jobs": listed}


def build_report(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The output of a sweep, from what its groups say; a group may have come to nothing."""
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
    """Whether a sweep brought anything on: only then is it worth while to begin it again."""
    return any(number for outcome, number in counts.items() if outcome not in _NO_PROGRESS_OUTCOMES)


_NO_PROGRESS_OUTCOMES: Final = frozenset({ERROR, OUT_OF_TIME, NO_CHANGE})


def _result_line(item: HandledItem) -> dict[str, Any]:
    if item.error is not None:
        return _error_line(item.key, f"{type(item.error).__name__}: {item.error}")
    if item.resolution is None:
        return {"key": item.key, "outcome": OUT_OF_TIME, "reason": "no time was left for it"}
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
    """A reason of bounded size, without addresses: executions are kept, and read by many."""
    text = redacted_line(reason)
    while len(json.dumps(text)) > MAX_REASON_BYTES:
        text = text[: len(text) * 3 // 4]
    return text


@dataclass(frozen=True, kw_only=True)
class SweepFinisher:
    """What remains to be done when the groups of a page are through."""

    leases: SweepLeases
    sweeps: Sweeps

    def finish(
        self, sweep: Mapping[str, Any], results: Iterable[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Report, and start the next page, which takes the leases anew.

        The next page begins later than this one, so rows that fail each time end no sweep. If it
        cannot begin later, because many rows fell due at once, something must have moved.
        """
        done = build_report(results)
        for shard in sweep["shards"]:
            self.leases.release(shard, holder=sweep["execution"])
        next_sweep = sweep["next"]
        if next_sweep is not None and (
            next_sweep["from"] != sweep["from"] or made_progress(done["counts"])
        ):
            self.sweeps.start(next_sweep)
        return {**done, "busy_shards": sweep["busy"]} if sweep["busy"] else done
