"""The fault explorer: tests a job under every crash, race and lost response, in one call."""

from oncely.testing.explore import build_scenario, explore
from oncely.testing.explorer import ExplorationReport, SearchLimits, Violation
from oncely.testing.scenario import FinalState, ProviderSpec, Scenario

__all__ = [
    "ExplorationReport",
    "FinalState",
    "ProviderSpec",
    "Scenario",
    "SearchLimits",
    "Violation",
    "build_scenario",
    "explore",
]
