"""Compares the payment job with Powertools under the same schedules, by kind of violation."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import Pool
from typing import Final

from oncely.core.lifecycle import Status
from oncely.testing.__main__ import print_schedule
from oncely.testing.base_simulation import BaseSimulation
from oncely.testing.explorer import Explorer, SearchLimits, SimulationFactory, shrink
from oncely.testing.scenario import Scenario
from oncely.testing.script import Script, format_script, parse_script
from oncely.testing.world import Simulation
from tests.faults.expectations import KEY
from tests.faults.powertools_job import VARIANTS
from tests.faults.powertools_simulation import PowertoolsSimulation, simulated_time
from tests.faults.scenarios import SCENARIOS
from tests.faults.violation_kinds import ViolationKind, find_violations

COLUMN_SEPARATOR: Final = " by "  # between a scenario and a column, in a script
ONCELY: Final = "Oncely"
NAMES: Final = (ONCELY, *(way.name for way in VARIANTS))
# Kinds of payment providers. The lag of lookups affects only Oncely.
PROVIDERS: Final = {
    "keys": "a provider that honors keys",
    "no-keys": "a provider without keys",
    "short-window": "keys that last 30 minutes",
    "declined": "a declined card",
    "edited": "an order that changes during the run",
    "outage": "an outage of an hour that begins with the charge",
}
LIMITS: Final = SearchLimits(injections=2, schedules=1000)


@dataclass
class ComparisonColumn:
    name: str
    schedules: int = 0
    violating_schedules: int = 0
    violating_without_delays: int = 0  # of these, without a delay
    violations: Counter[str] = field(default_factory=Counter)
    providers: Counter[str] = field(default_factory=Counter)  # violations, by kind
    shortest_scripts: dict[str, str] = field(default_factory=dict)  # a script of each kind

    def add(self, other: "ComparisonColumn") -> None:
        self.schedules += other.schedules
        self.violating_schedules += other.violating_schedules
        self.violating_without_delays += other.violating_without_delays
        self.violations += other.violations
        self.providers += other.providers
        self.shortest_scripts = {**other.shortest_scripts, **self.shortest_scripts}


class OncelySimulation(Simulation):
    """The shipped services. Violations that a customer would notice come first."""

    def expire(self) -> None:
        self.problems += self._violation_kinds()
        super().expire()

    def violations(self) -> list[str]:
        return [*self._violation_kinds(), *super().violations()]

    def _violation_kinds(self) -> list[ViolationKind]:
        job = self.job(KEY)
        told = job is not None and job.status is Status.NEEDS_REVIEW
        return list(find_violations(self, (), escalated=told, lost=job is None))


class CountingExplorer(Explorer):
    """Plays every schedule to its end and counts the violations, without shrinking them."""

    def __init__(
        self, scenario: Scenario, bound: SearchLimits, begin: SimulationFactory, name: str
    ) -> None:
        super().__init__(scenario, bound, simulation_factory=begin)
        self.merges_states = False
        self.column = ComparisonColumn(name)

    def record_schedule(self, world: BaseSimulation, script: Script, problems: list[str]) -> None:
        self.column.schedules += 1
        if not problems:
            return
        self.column.violating_schedules += 1
        self.column.providers[self.scenario.name] += 1
        self.column.violating_without_delays += all(change.is_fault for change in script)
        for problem in set(problems):
            self.column.violations[problem] += 1
            # The simple schedules come first.
            self.column.shortest_scripts.setdefault(
                problem, format_script(self.scenario.name, script)
            )


def compare(
    bound: SearchLimits = LIMITS, providers: Iterable[str] = PROVIDERS
) -> list[ComparisonColumn]:
    """Every version of the job with the same limits and each provider, in two processes."""
    columns = {name: ComparisonColumn(name) for name in NAMES}
    parts = [(provider, name) for provider in providers for name in NAMES]
    with Pool(2) as pool:
        for part in pool.imap_unordered(partial(count_violations, bound), parts):
            columns[part.name].add(part)
    return list(columns.values())


def format_table(columns: Sequence[ComparisonColumn]) -> str:
    kinds = [
        *ViolationKind,
        *sorted({kind for one in columns for kind in one.violations} - set(ViolationKind)),
    ]
    rows = [
        ("", *(one.name for one in columns)),
        ("---", *("---:" for _ in columns)),
        ("schedules", *(f"{one.schedules:,}" for one in columns)),
        ("of these break the promise", *(f"{one.violating_schedules:,}" for one in columns)),
        (
            "by crashes and lost answers alone",
            *(f"{one.violating_without_delays:,}" for one in columns),
        ),
        *((kind, *(f"{one.violations[kind]:,}" for one in columns)) for kind in kinds),
        *(
            (
                f"broken with {words}",
                *(f"{one.providers[_scenario_name(name)]:,}" for one in columns),
            )
            for name, words in PROVIDERS.items()
        ),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def simulation_factory(name: str) -> SimulationFactory:
    for way in VARIANTS:
        if way.name == name:
            return partial(PowertoolsSimulation, way=way)
    return OncelySimulation


def main(replayed: str = "") -> int:
    if replayed:
        return replay(replayed)
    columns = compare()
    sys.stdout.write(f"{format_table(columns)}\n")
    for column in columns:
        for wrong, script in column.shortest_scripts.items():
            sys.stdout.write(f"\n{column.name}: {wrong}\n  REPLAY='{script}'\n")
    return 1 if columns[0].violating_schedules else 0


def replay(text: str) -> int:
    """Play a schedule of any column again: `payment.charge/keys by Powertools, order_id: …`."""
    name, script = parse_script(text)
    scenario, _, column = name.partition(COLUMN_SEPARATOR)
    with simulated_time():
        named = replace(_find_scenario(scenario), name=name)
        return print_schedule(named, script, simulation_factory=simulation_factory(column))


def count_violations(bound: SearchLimits, part: tuple[str, str]) -> ComparisonColumn:
    provider, name = part
    scenario = _find_scenario(_scenario_name(provider))
    with simulated_time():
        counted = CountingExplorer(scenario, bound, simulation_factory(name), name)
        counted.explore()
        column = counted.column
        column.shortest_scripts = {
            wrong: _shrink_script(scenario, script, name)
            for wrong, script in column.shortest_scripts.items()
        }
    return column


def _shrink_script(scenario: Scenario, script: str, name: str) -> str:
    short = shrink(scenario, parse_script(script)[1], simulation_factory=simulation_factory(name))
    return format_script(f"{scenario.name}{COLUMN_SEPARATOR}{name}", short)


def _scenario_name(provider: str) -> str:
    return f"payment.charge/{provider}"


def _find_scenario(name: str) -> Scenario:
    return next(one for one in SCENARIOS if one.name == name)
