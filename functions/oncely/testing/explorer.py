"""The explorer: enumerates schedules, fewest injections first, and shrinks each violation."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from oncely.testing.base_simulation import BaseSimulation
from oncely.testing.digest import UndigestableStateError
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import RandomChooser, ScheduleLimitError, Scheduler, ScriptedChooser
from oncely.testing.script import Injection, Script, format_script, parse_injections
from oncely.testing.world import Simulation

SimulationFactory: TypeAlias = Callable[[Scenario, Scheduler], BaseSimulation]


@dataclass(frozen=True, kw_only=True)
class SearchLimits:
    """Limits of a search."""

    injections: int = 2  # faults and delays of a schedule
    schedules: int = 1_000_000  # if there are more, an even sample is explored
    random_schedules: int = 0  # additional random schedules, with more injections each
    seed: int = 1
    max_violations: int = 3  # stop after this many


@dataclass(frozen=True)
class Violation:
    """A schedule that violates an invariant, as short as possible."""

    scenario: str
    script: Script
    problems: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"REPLAY='{format_script(self.scenario, self.script)}'"]
        return "\n".join([*lines, *(f"  {problem}" for problem in self.problems)])


@dataclass
class ExplorationReport:
    """The results of an exploration."""

    scenario: str
    schedules: int = 0
    merged_schedules: int = 0  # of these, reached a state that was explored before
    states: int = 0
    seconds: float = 0.0  # of CPU time, so that other processes do not count
    faults: Counter[str] = field(default_factory=Counter)  # by call and fault
    final_statuses: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    violating_schedules: int = 0  # before shrinking
    complete: bool = True  # every schedule within the limits was explored


class StateSeenError(BaseException):
    """A state that was explored before, with everything that follows from it."""


def run_schedule(
    scenario: Scenario,
    chooser: ScriptedChooser | RandomChooser,
    *,
    listener: Callable[[float, str], None] | None = None,
    simulation_factory: SimulationFactory = Simulation,
) -> tuple[BaseSimulation, list[str]]:
    """Run one schedule to its end, and return its violations."""
    schedule = Scheduler(chooser)
    schedule.listener = listener
    world = simulation_factory(scenario, schedule)
    try:
        schedule.run()
    except ScheduleLimitError as error:
        return world, [*world.problems, str(error)]
    return world, world.violations()


class Explorer:
    """The explorer of one scenario."""

    def __init__(
        self,
        scenario: Scenario,
        limits: SearchLimits,
        *,
        simulation_factory: SimulationFactory = Simulation,
    ) -> None:
        self.scenario = scenario
        self.limits = limits
        self.fixed_prefix = parse_injections(scenario.fixed_prefix)
        self.simulation_factory = simulation_factory
        self.report = ExplorationReport(scenario.name)
        # A schedule that reached a state earlier had no more injections, so it may still have those
        # of any later one.
        self._seen: set[int] = set()
        self.merges_states = True

    def explore(self) -> ExplorationReport:
        """Explore all schedules within the limits, the simplest first."""
        began = time.process_time()
        bound = self.limits
        level, left = [self.fixed_prefix], bound.injections
        while level and not self._has_enough():
            deeper: list[Script] = []
            for script in self._within_budget(level):
                if self._has_enough():
                    break
                alternatives = self._run(script, is_last_level=left == 0)
                deeper += [(*script, one) for one in alternatives if left]
            level, left = deeper, left - 1
        for number in range(bound.random_schedules):
            if self._has_enough():
                break
            self._run_random(bound.seed * 1_000_003 + number)
        self.report.states = len(self._seen)
        self.report.seconds = time.process_time() - began
        return self.report

    def _within_budget(self, level: list[Script]) -> list[Script]:
        remaining = self.limits.schedules - self.report.schedules
        if len(level) <= remaining:
            return level
        self.report.complete = False
        generator = random.Random(self.limits.seed)  # noqa: S311  # nothing here is a secret
        return [level[index] for index in sorted(generator.sample(range(len(level)), remaining))]

    def _has_enough(self) -> bool:
        report, limit = self.report, self.limits.max_violations
        # Most violating schedules shrink to the same few.
        return len(report.violations) >= limit or report.violating_schedules >= 5 * limit

    def _run(self, script: Script, *, is_last_level: bool) -> list[Injection]:
        report = self.report
        report.schedules += 1
        report.faults.update(_fault_label(one) for one in script if one.is_fault)
        chooser = ScriptedChooser(script)
        schedule = Scheduler(chooser)
        world = self.simulation_factory(self.scenario, schedule)
        chooser.on_new_state = lambda offered: self._merge(world, offered)
        chooser.is_last_level = is_last_level
        try:
            schedule.run()
            problems = world.violations()
        except StateSeenError:
            report.merged_schedules += 1
            if not world.problems:
                return chooser.alternatives
            problems = world.problems  # the first visit of this state checked the rest
        except ScheduleLimitError as error:
            problems = [*world.problems, str(error)]
        if chooser.remaining and script == self.fixed_prefix:
            prefix = self.scenario.fixed_prefix
            raise ValueError(f"no schedule of {self.scenario.name} begins with {prefix}")
        self.record_schedule(world, script, problems)
        return chooser.alternatives

    def _run_random(self, seed: int) -> None:
        self.report.schedules += 1
        rate = (0.02, 0.05, 0.1)[seed % 3]
        chooser = RandomChooser(
            seed, injections=2 + seed % 6, rate=rate, fixed_prefix=self.fixed_prefix
        )
        world, problems = run_schedule(
            self.scenario, chooser, simulation_factory=self.simulation_factory
        )
        self.report.faults.update(_fault_label(one) for one in chooser.script if one.is_fault)
        self.record_schedule(world, tuple(chooser.script), problems)

    def record_schedule(self, world: BaseSimulation, script: Script, problems: list[str]) -> None:
        """Record the result of one schedule, and shrink it if it violates an invariant."""
        self.report.final_statuses.update(world.final_statuses())
        if problems:
            self.report.violating_schedules += 1
            short = shrink(self.scenario, script, simulation_factory=self.simulation_factory)
            _, problems = run_schedule(
                self.scenario, ScriptedChooser(short), simulation_factory=self.simulation_factory
            )
            violation = Violation(self.scenario.name, short, tuple(dict.fromkeys(problems)))
            if violation not in self.report.violations:
                self.report.violations.append(violation)

    def _merge(self, world: BaseSimulation, options: tuple[str, ...]) -> None:
        if not self.merges_states:
            return
        try:
            state = world.digest((world.full_state(), options))
        except UndigestableStateError:
            self.merges_states = False
            return
        if state in self._seen:
            raise StateSeenError
        self._seen.add(state)


def shrink(
    scenario: Scenario, script: Script, *, simulation_factory: SimulationFactory = Simulation
) -> Script:
    """Remove injections while any violation remains. The fixed prefix belongs to the scenario."""
    for index in range(len(parse_injections(scenario.fixed_prefix)), len(script)):
        shorter = (*script[:index], *script[index + 1 :])
        if run_schedule(scenario, ScriptedChooser(shorter), simulation_factory=simulation_factory)[
            1
        ]:
            return shrink(scenario, shorter, simulation_factory=simulation_factory)
    return script


def _fault_label(injection: Injection) -> str:
    return f"{injection.call_site.call} {injection.action[1:]}"
