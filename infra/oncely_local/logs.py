"""The functions' logs as one stream: what happened to which job, in the order it happened."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from oncely_local.account import STACK_NAME, LocalAccount

# Written by the functions, beside Lambda's own lines and the metrics.
_GROUPS: Final = f"/aws/cloudformation/{STACK_NAME}/"
# Lines reach CloudWatch when an invocation ends; two that end at once may come in any order.
_MAX_LATENESS_MS: Final = 1000
# In one answer; more is read from where it ended.
_MAX_EVENTS: Final = 10_000
# What explains a line, in this order; the rest is there for queries.
_DETAILS: Final = ("deduplication", "old", "new", "outcome", "fate", "reason", "result", "error")
# Said for each batch of the stream, of any job: too often to follow a job by.
_IGNORED_EVENTS: Final = frozenset({None, "history"})


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One thing that a function said about a job."""

    at: datetime
    function: str
    event: str
    level: str = "INFO"
    job_key: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """The line as a person reads it: time, job, function, what happened and why."""
        details = (f"{name}={self.fields[name]}" for name in _DETAILS if self.fields.get(name))
        job = self.job_key or "-"
        return f"{self.at:%H:%M:%S} {job:<42} {self.function:<18} {self.event}  {' '.join(details)}"


def parse_event(message: str, *, function: str, at: datetime) -> LogLine | None:
    """One event of CloudWatch; None for Lambda's own lines and for metrics."""
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
    """The function whose log group it is: `PaymentsWorker`."""
    return group.removeprefix(_GROUPS).partition("Logs")[0]


@dataclass
class LogStream:
    """Gives each line once; a second reader makes its own."""

    account: LocalAccount
    since: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, set[tuple[object, ...]]] = field(default_factory=dict)

    def poll(self) -> list[LogLine]:
        """All that was said since the last call, oldest first."""
        return sorted(self._poll(), key=lambda line: line.at)

    def _poll(self) -> Iterator[LogLine]:
        for group in self._groups():
            for event in self._events(group):
                at = datetime.fromtimestamp(event["timestamp"] / 1000, tz=UTC)
                if line := parse_event(event["message"], function=function_name(group), at=at):
                    yield line

    def _groups(self) -> Iterable[str]:
        logs = self.account.client("logs")
        listed = logs.describe_log_groups(logGroupNamePrefix=_GROUPS)["logGroups"]
        return [one["logGroupName"] for one in listed]

    def _events(self, group: str) -> Iterator[Mapping[str, Any]]:
        """What is new in one group; the newest moments are read again, for what came late."""
        seen = self._seen.setdefault(group, set())
        while True:
            since = self.since.get(group, 0)
            found = self.account.client("logs").filter_log_events(
                logGroupName=group, startTime=max(0, since - _MAX_LATENESS_MS), limit=_MAX_EVENTS
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
    """The engine gives a stream to each invocation, and no ids to events."""
    return (event["logStreamName"], event["timestamp"], event["message"])
