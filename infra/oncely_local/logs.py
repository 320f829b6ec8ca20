"""The functions' logs as one stream in order of time, and counts of their events."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from oncely_local.account import LocalAccount
from oncely_local.metrics import EMBEDDED

# Lines arrive when an invocation ends, so those of concurrent invocations arrive out of order.
_MAX_LATENESS_MS: Final = 1000
# The page size; the next page starts where this one ended.
_MAX_EVENTS: Final = 10_000
# The fields to show, in this order. The others are for queries.
_DETAILS: Final = ("deduplication", "old", "new", "outcome", "fate", "reason", "result", "error")
# Not about one job, and too frequent to show.
_IGNORED_EVENTS: Final = frozenset({None, "history"})
# What the engine logs for a function that timed out.
_TIMED_OUT: Final = "killing worker"


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One log event of a function about a job."""

    at: datetime
    function: str
    event: str
    level: str = "INFO"
    job_key: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        details = (f"{name}={self.fields[name]}" for name in _DETAILS if self.fields.get(name))
        job = self.job_key or "-"
        return f"{self.at:%H:%M:%S} {job:<42} {self.function:<18} {self.event}  {' '.join(details)}"


def parse_event(message: str, *, function: str, at: datetime) -> LogLine | None:
    """Parse a CloudWatch event. Returns None for Lambda's own lines and for metrics."""
    try:
        entry = json.loads(message)
    except ValueError:
        return None
    if not isinstance(entry, dict) or "_aws" in entry or entry.get("message") in _IGNORED_EVENTS:
        return None
    return LogLine(
        at=_written_at(entry) or at,
        function=function,
        event=str(entry["message"]),
        level=str(entry.get("level", "INFO")),
        job_key=str(entry.get("job_key", "")),
        fields=entry,
    )


def _written_at(entry: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(str(entry["timestamp"])).astimezone(UTC)
    except (KeyError, ValueError):
        return None


def function_name(group: str) -> str:
    """The function of a log group, such as `PaymentsWorker`."""
    return group.rpartition("/")[2].partition("Logs")[0]


@dataclass
class LogStream:
    """Returns each line once. Each reader needs its own instance."""

    account: LocalAccount
    on_metrics: Callable[[str], None] = lambda _: None  # called with each embedded metric
    start_ms: int = 0  # earlier lines are left out
    since: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, set[tuple[object, ...]]] = field(default_factory=dict)

    def poll(self) -> list[LogLine]:
        return sorted(self._poll(), key=lambda line: line.at)

    def _poll(self) -> Iterator[LogLine]:
        for group in self._groups():
            for event in self._events(group):
                if EMBEDDED in event["message"]:
                    self.on_metrics(event["message"])
                at = datetime.fromtimestamp(event["timestamp"] / 1000, tz=UTC)
                if line := parse_event(event["message"], function=function_name(group), at=at):
                    yield line

    def _groups(self) -> Iterable[str]:
        logs = self.account.client("logs")
        prefix = f"/aws/cloudformation/{self.account.stack_name}/"
        listed = logs.describe_log_groups(logGroupNamePrefix=prefix)["logGroups"]
        return [one["logGroupName"] for one in listed]

    def _events(self, group: str) -> Iterator[Mapping[str, Any]]:
        """The new events of a group. The most recent time is read again, for late arrivals."""
        seen = self._seen.setdefault(group, set())
        while True:
            since = max(self.since.get(group, 0) - _MAX_LATENESS_MS, self.start_ms)
            found = self.account.client("logs").filter_log_events(
                logGroupName=group, startTime=since, limit=_MAX_EVENTS
            )["events"]
            fresh = [one for one in found if _identity(one) not in seen]
            yield from fresh
            if found:
                newest = self.since[group] = found[-1]["timestamp"]
                seen.clear()
                seen |= {
                    _identity(one) for one in found if one["timestamp"] >= newest - _MAX_LATENESS_MS
                }
            if len(found) < _MAX_EVENTS or not fresh:
                return


def _identity(event: Mapping[str, Any]) -> tuple[object, ...]:
    """Identify an event: the engine has one stream per invocation, but no event ids."""
    return (event["logStreamName"], event["timestamp"], event["message"])


@dataclass
class LogCounts:
    """Counts of log events."""

    deliveries: int = 0  # messages that a worker processed
    redelivered: int = 0  # of these, second and later deliveries
    duplicates: Counter[str] = field(default_factory=Counter)  # by reason
    rejected: int = 0
    resolved: int = 0  # jobs whose status the reconciler changed

    def add(self, lines: Iterable[LogLine]) -> None:
        for line in lines:
            if "receives" in line.fields and line.event != "message action failed":
                self._add_delivery(line)
            elif line.event == "job resolved":
                self.resolved += line.fields.get("old") != line.fields.get("new")

    def _add_delivery(self, line: LogLine) -> None:
        self.deliveries += 1
        self.redelivered += int(line.fields["receives"]) > 1
        self.rejected += line.fields.get("reply") == "Reject"
        if how := line.fields.get("deduplication"):
            self.duplicates[how] += 1


def count_timeouts(log: Path) -> int:
    """Count the functions that the engine stopped at their timeout."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        return sum(_TIMED_OUT in line for line in lines)
