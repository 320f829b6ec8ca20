"""The fault explorer: tests a job under every crash, race and lost response, in one call."""

from oncely.testing.explore import explore
from oncely.testing.explorer import SearchLimits
from oncely.testing.scenario import FinalState

__all__ = ["FinalState", "SearchLimits", "explore"]
