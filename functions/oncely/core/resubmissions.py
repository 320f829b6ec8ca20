"""How often a declined job may be resubmitted, according to the row of its last run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from oncely.core.text import format_minute

_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class ResubmissionLimit:
    """The deployment's limit. The first resubmission may follow the decline at once."""

    min_interval: timedelta
    max_per_day: int

    def refusal(self, resubmissions: Sequence[datetime], now: datetime) -> str | None:
        """Why the next resubmission is refused. Returns None if it may run."""
        recent = recent_resubmissions(resubmissions, now)
        if len(recent) >= self.max_per_day:
            free_at = format_minute(recent[-self.max_per_day] + _DAY)
            return f"it was resubmitted {len(recent)} times in 24 hours: send it after {free_at}"
        if recent and now - recent[-1] < self.min_interval:
            seconds = self.min_interval.total_seconds()
            return f"it was resubmitted less than {seconds:g} seconds ago: send it later"
        return None


def recent_resubmissions(resubmissions: Sequence[datetime], now: datetime) -> tuple[datetime, ...]:
    """The resubmissions of the last 24 hours."""
    return tuple(at for at in resubmissions if now - at < _DAY)
