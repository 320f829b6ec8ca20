"""Enumerates schedules, fewest changes first, and shrinks whatever breaks the promise."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from oncely.testing.base_simulation import BaseSimulation
from oncely.testing.choosers import RandomChooser, ScriptedChooser
from oncely.testing.digest import UndigestableStateError
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import ScheduleLimitError, Scheduler
from oncely.testing.script import Injection, Script, format_script, parse_injections
from oncely.testing.world import Simulation

# Whose workers are explored.
SimulationFactory: TypeAlias = Callable[[Scenario, Scheduler], BaseSimulation]


@dataclass(frozen=True, kw_only=True)
class SearchLimits:
    """How far to look."""

    faults: int = 2
    delays: int = 2
    injections: int = 2  # of both together
    schedules: int = 1_000_000  # at most so many; of more, some are drawn, evenly
    random_schedules: int = 0  # schedules drawn by chance beyond these, with more changes each
    seed: int = 1
    max_violations: int = 3  # stop after so many


@dataclass(frozen=True)
class RemainingBudget:
    """What a schedule may still do."""

    faults: int
    delays: int
    injections: int

    def after(self, injection: Injection) -> "RemainingBudget | None":
        """What is left after one more change; None: there was not enough."""
        fault = injection.is_fault
        rest = RemainingBudget(self.faults - fault, self.delays - (not fault), self.injections - 1)
        return rest if min(rest.faults, rest.delays, rest.injections) >= 0 else None

    def covers(self, other: "RemainingBudget") -> bool:
        """Whether everything that the other may still do was looked at with this one."""
        return (
            self.faults >= other.faults
            and self.delays >= other.delays
            and self.injections >= other.injections
        )


@dataclass(frozen=True)
class Violation:
    """A schedule that breaks the promise, as short as it can be."""

    scenario: str
    script: Script
    problems: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"REPLAY='{format_script(self.scenario, self.script)}'"]
        return "\n".join([*lines, *(f"  {problem}" for problem in self.problems)])


@dataclass
class ExplorationReport:
    """What was looked at, and what was found."""

    scenario: str
    schedules: int = 0
    merged_schedules: int = 0  # of these, came to a state that was looked at before
    states: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)  # by point and kind
    final_statuses: Counter[str] = field(default_factory=Counter)  # how the job ended
    violations: list[Violation] = field(default_factory=list)
    violating_schedules: int = 0  # schedules that broke the promise, before they were shrunk
    complete: bool = True  # every schedule within the bound was looked at


class StateSeenError(BaseException):
    """This state was looked at before, and so was all that follows from it."""


def run_schedule(
    scenario: Scenario,
    chooser: ScriptedChooser | RandomChooser,
    *,
    listener: Callable[[float, str], None] | None = None,
    simulation_factory: SimulationFactory = Simulation,
) -> tuple[BaseSimulation, list[str]]:
    """One schedule from its beginning to its end, and what it breaks."""
    schedule = Scheduler(chooser)
    schedule.listener = listener
    world = simulation_factory(scenario, schedule)
    try:
        schedule.run()
    except ScheduleLimitError as error:
        return world, [*world.problems, str(error)]
    return world, world.violations()


class Explorer:
    """Explores one scenario."""

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
        self._seen: dict[int, list[RemainingBudget]] = {}
        self.merges_states = True

    def explore(self) -> ExplorationReport:
        """All schedules within the bound, the simple ones first."""
        began = time.perf_counter()
        bound = self.limits
        level = [(self.fixed_prefix, RemainingBudget(bound.faults, bound.delays, bound.injections))]
        while level and not self._has_enough():
            deeper = []
            for script, left in self._within_budget(level):
                if self._has_enough():
                    break
                for change in self._run(script, left):
                    rest = left.after(change)
                    if rest is not None:
                        deeper.append(((*script, change), rest))
            level = deeper
        for number in range(bound.random_schedules):
            if self._has_enough():
                break
            self._run_random(bound.seed * 1_000_003 + number)
        self.report.states = len(self._seen)
        self.report.seconds = time.perf_counter() - began
        return self.report

    def _within_budget(
        self, level: list[tuple[Script, RemainingBudget]]
    ) -> list[tuple[Script, RemainingBudget]]:
        """All schedules of so many changes, or as many as the bound has room for, from all over."""
        room = self.limits.schedules - self.report.schedules
        if len(level) <= room:
            return level
        self.report.complete = False
        drawn = random.Random(self.limits.seed)  # noqa: S311  # nothing here is a secret
        return [level[index] for index in sorted(drawn.sample(range(len(level)), room))]

    def _has_enough(self) -> bool:
        report, most = self.report, self.limits.max_violations
        # Most of them shrink to the same few.
        return len(report.violations) >= most or report.violating_schedules >= 5 * most

    def _run(self, script: Script, left: RemainingBudget) -> list[Injection]:
        report = self.report
        report.schedules += 1
        report.faults.update(_fault_label(change) for change in script if change.is_fault)
        chooser = ScriptedChooser(script)
        schedule = Scheduler(chooser)
        world = self.simulation_factory(self.scenario, schedule)
        chooser.on_new_state = lambda offered: self._merge(world, offered, left)
        try:
            schedule.run()
            problems = world.violations()
        except StateSeenError:
            report.merged_schedules += 1
            if not world.problems:
                return chooser.alternatives
            problems = world.problems  # those of the end were found where it was seen first
        except ScheduleLimitError as error:
            problems = [*world.problems, str(error)]
        self.record_schedule(world, script, problems)
        return chooser.alternatives

    def _run_random(self, seed: int) -> None:
        self.report.schedules += 1
        rate = (0.02, 0.05, 0.1)[seed % 3]
        chance = RandomChooser(
            seed, injections=2 + seed % 6, rate=rate, fixed_prefix=self.fixed_prefix
        )
        world, problems = run_schedule(
            self.scenario, chance, simulation_factory=self.simulation_factory
        )
        self.report.faults.update(_fault_label(one) for one in chance.script if one.is_fault)
        self.record_schedule(world, tuple(chance.script), problems)

    def record_schedule(self, world: BaseSimulation, script: Script, problems: list[str]) -> None:
        """Note how one schedule ended, and the shortest like it if it broke the promise."""
        self.report.final_statuses.update(world.final_statuses())
        if problems:
            self.report.violating_schedules += 1
            short = shrink(self.scenario, script, simulation_factory=self.simulation_factory)
            _, problems = run_schedule(
                self.scenario, ScriptedChooser(short), simulation_factory=self.simulation_factory
            )
            found = Violation(self.scenario.name, short, tuple(dict.fromkeys(problems)))
            if found not in self.report.violations:
                self.report.violations.append(found)

    def _merge(
        self, world: BaseSimulation, options: tuple[str, ...], left: RemainingBudget
    ) -> None:
        if not self.merges_states:
            return
        try:
            state = world.digest((world.full_state(), options))
        except UndigestableStateError:
            self.merges_states = False
            return
        known = self._seen.setdefault(state, [])
        if any(one.covers(left) for one in known):
            raise StateSeenError
        known.append(left)


def shrink(
    scenario: Scenario, script: Script, *, simulation_factory: SimulationFactory = Simulation
) -> Script:
    """The same violation, or another, from as few changes as possible."""
    for index in range(len(script)):
        shorter = (*script[:index], *script[index + 1 :])
        if run_schedule(scenario, ScriptedChooser(shorter), simulation_factory=simulation_factory)[
            1
        ]:
            return shrink(scenario, shorter, simulation_factory=simulation_factory)
    return script


def _fault_label(injection: Injection) -> str:
    return f"{injection.call_site.call} {injection.action[1:]}"
