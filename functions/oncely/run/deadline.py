"""When an invocation is killed: nothing is started that would not be done by then."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from oncely.ports import Clock


@dataclass(frozen=True)
class Deadline:
    """The moment of the kill, by the clock of whoever asks."""

    at: datetime
    clock: Clock

    def has_time_for(self, duration: timedelta) -> bool:
        """Whether this much time is left."""
        return self.clock.now() + duration <= self.at
