"""What a sweep says it did: counts, and one short line for each job as far as they fit."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from oncely.domain.lifecycle import Status
from oncely.domain.text import redacted_line
from oncely.reconcile.find_due_work import DueWork
from oncely.reconcile.resolve_group import HandledItem

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
