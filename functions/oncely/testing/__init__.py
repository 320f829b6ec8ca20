"""The fault explorer: tests a job under every crash, race and lost response, in one call."""

from oncely.testing.explore import build_scenario, explore
from oncely.testing.explorer import ExplorationReport, SearchLimits, Violation
from oncely.testing.scenario import FinalState, ProviderSpec, Scenario, effect_calls, lookup_calls

__all__ = [
    "ExplorationReport",
    "FinalState",
    "ProviderSpec",
    "Scenario",
    "SearchLimits",
    "Violation",
    "build_scenario",
    "effect_calls",
    "explore",
    "lookup_calls",
]
