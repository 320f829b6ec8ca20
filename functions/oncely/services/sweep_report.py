"""What a sweep says it did: counts, and one short line for each job as far as they fit."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from oncely.domain.lifecycle import Status
from oncely.domain.text import safe_line
from oncely.services.find_due import Found
from oncely.services.resolve_group import Handled

ERROR: Final = "error"  # nobody could say anything about the job; it stays due
LATER: Final = "later"  # there was no time left for it; it stays due
NOTHING: Final = "nothing"

GROUP_SIZE: Final = 25
# Step Functions hands on 256 kB at most, and the items of a page need their part of it. Two
# hundred lines, each with a key of 200 bytes, fit.
RESULT_BYTES: Final = 140_000
LONGEST_REASON: Final = 400

# What people want to see if not all can be listed.
_FIRST: Final = frozenset({ERROR, Status.NEEDS_REVIEW})


def groups(found: Found, *, size: int, dry_run: bool) -> list[dict[str, Any]]:
    """The inputs of the group workers, each with its part of what a sweep may say."""
    parts = [found.items[at : at + size] for at in range(0, len(found.items), size)]
    return [
        {
            "items": [item.as_json() for item in part],
            "dry_run": dry_run,
            "bytes": RESULT_BYTES // len(parts),
        }
        for part in parts
    ]


def summary(handled: Iterable[Handled], *, limit: int) -> dict[str, Any]:
    """What a group says: counts of all, and lines of as many as fit."""
    lines = sorted(map(_line, handled), key=lambda line: line["outcome"] not in _FIRST)
    counts = Counter(str(line["outcome"]) for line in lines)
    listed, size = [], 0
    for line in lines:
        size += len(json.dumps(line)) + 2
        if size > limit:
            break
        listed.append(line)
    return {"counts": dict(counts), "jobs": listed}


def report(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The output of a sweep, from what its groups say; a group may have come to nothing."""
    counts: Counter[str] = Counter()
    jobs: list[Mapping[str, Any]] = []
    for result in results:
        lost = [_failed(item["key"], result["error"]) for item in result.get("items", ())]
        counts += Counter({ERROR: len(lost), **result.get("counts", {})})
        jobs += (*lost, *result.get("jobs", ()))
    not_listed = counts.total() - len(jobs)
    return {
        "counts": dict(counts),
        "jobs": jobs,
        **({"not_listed": not_listed} if not_listed else {}),
    }


def moved(counts: Mapping[str, int]) -> bool:
    """Whether a sweep brought anything on: only then is it worth while to begin it again."""
    return any(number for outcome, number in counts.items() if outcome not in _STANDSTILL)


_STANDSTILL: Final = frozenset({ERROR, LATER, NOTHING})


def _line(one: Handled) -> dict[str, Any]:
    if one.error is not None:
        return _failed(one.key, f"{type(one.error).__name__}: {one.error}")
    if one.done is None:
        return {"key": one.key, "outcome": LATER, "reason": "no time was left for it"}
    said = {
        "key": one.key,
        "outcome": one.done.outcome,
        "old": one.done.old,
        "new": one.done.new,
        "reason": shortened(one.done.reason),
        "alert": one.telling and str(one.telling),
    }
    return {name: value for name, value in said.items() if value}


def _failed(key: str, reason: str) -> dict[str, Any]:
    return {"key": key, "outcome": ERROR, "reason": shortened(reason)}


def shortened(reason: str) -> str:
    """A reason of bounded size, without addresses: executions are kept, and read by many."""
    text = safe_line(reason)
    while len(json.dumps(text)) > LONGEST_REASON:
        text = text[: len(text) * 3 // 4]
    return text
