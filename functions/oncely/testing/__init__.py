"""What a team tests its own job with: every crash, race and lost reply, in one line of test."""

from oncely.testing.explorer import Bound, Report, Violation
from oncely.testing.own_job import explore, own_job
from oncely.testing.scenario import Ended, Provider, Scenario, acting, asking

__all__ = [
    "Bound",
    "Ended",
    "Provider",
    "Report",
    "Scenario",
    "Violation",
    "acting",
    "asking",
    "explore",
    "own_job",
]
