"""What a sweep says it did: one short line for each job, and counts of them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from oncely.domain.text import safe_line
from oncely.services.reconcile import Resolution

ERROR: Final = "error"  # nobody could say anything about the job; it stays due

# Step Functions hands on 256 kB at most. Two hundred lines, each with a key of 200 bytes, stay
# well below that.
LONGEST_REASON: Final = 400

_SHOWN: Final = ("key", "outcome", "old", "new", "reason", "alert")


def line(done: Resolution) -> dict[str, Any]:
    """What was done about one job, and whether a person is still to be told."""
    return {
        "key": done.key,
        "outcome": done.outcome,
        "old": done.old,
        "new": done.new,
        "reason": shortened(done.reason),
        "alert": done.alert,
    }


def failed(key: str, error: Exception) -> dict[str, Any]:
    """A job that could not be looked at."""
    reason = shortened(f"{type(error).__name__}: {error}")
    return {"key": key, "outcome": ERROR, "reason": reason, "alert": False}


def report(lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The output of a sweep."""
    jobs = [{name: one[name] for name in _SHOWN if one.get(name)} for one in lines]
    return {"counts": dict(Counter(str(one["outcome"]) for one in jobs)), "jobs": jobs}


def shortened(reason: str) -> str:
    """A reason of bounded size, without addresses: executions are kept, and read by many."""
    text = safe_line(reason)
    while len(json.dumps(text)) > LONGEST_REASON:
        text = text[: len(text) * 3 // 4]
    return text
