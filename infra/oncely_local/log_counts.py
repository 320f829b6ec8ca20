"""Counts what the functions said: deliveries, what came of them, and what the engine ended."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from oncely_local.logs import LogLine

# What the engine says of a function that ran past its timeout.
_TIMED_OUT: Final = "killing worker"


@dataclass
class LogCounts:
    """Counted as the lines come in."""

    deliveries: int = 0  # messages that a worker answered for
    redelivered: int = 0  # of these, not for the first time
    duplicates_by_reason: Counter[str] = field(
        default_factory=Counter
    )  # duplicates, by how they were seen
    rejected: int = 0
    resolved: int = 0  # jobs that the reconciler brought further
    dead_letters: int = 0
    errors: int = 0

    def add(self, lines: Iterable[LogLine]) -> None:
        """Count these lines."""
        for line in lines:
            if "receives" in line.fields and line.event != "reply failed":
                self._add_delivery(line)
            elif line.event == "job resolved":
                self.resolved += line.fields.get("old") != line.fields.get("new")
            elif line.event == "dead letter":
                self.dead_letters += 1

    @property
    def duplicates(self) -> int:
        """Messages that were recognised as repetitions."""
        return self.duplicates_by_reason.total()

    def _add_delivery(self, line: LogLine) -> None:
        self.deliveries += 1
        self.redelivered += int(line.fields["receives"]) > 1
        self.rejected += line.fields.get("reply") == "Reject"
        self.errors += line.event == "message not worked"
        if how := line.fields.get("deduplication"):
            self.duplicates_by_reason[how] += 1


def count_timeouts(log: Path) -> int:
    """How many functions the engine ended at their timeout."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        return sum(_TIMED_OUT in line for line in lines)
