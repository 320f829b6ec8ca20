"""Enumerates schedules, fewest changes first, and shrinks whatever breaks the promise."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from oncely.testing.choosers import Chance, Follow
from oncely.testing.digest import CannotDigestError
from oncely.testing.ground import Ground
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import RestlessError, Schedule
from oncely.testing.script import Change, Script, changes_in, written
from oncely.testing.world import World

# Whose workers are explored.
Begin: TypeAlias = Callable[[Scenario, Schedule], Ground]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """How far to look."""

    faults: int = 2
    holdups: int = 2
    changes: int = 2  # of both together
    schedules: int = 1_000_000  # at most so many; of more, some are drawn, evenly
    random: int = 0  # schedules drawn by chance beyond these, with more changes each
    seed: int = 1
    violations: int = 3  # stop after so many


@dataclass(frozen=True)
class Left:
    """What a schedule may still do."""

    faults: int
    holdups: int
    changes: int

    def after(self, change: Change) -> "Left | None":
        """What is left after one more change; None: there was not enough."""
        fault = change.is_fault
        rest = Left(self.faults - fault, self.holdups - (not fault), self.changes - 1)
        return rest if min(rest.faults, rest.holdups, rest.changes) >= 0 else None

    def covers(self, other: "Left") -> bool:
        """Whether everything that the other may still do was looked at with this one."""
        return (
            self.faults >= other.faults
            and self.holdups >= other.holdups
            and self.changes >= other.changes
        )


@dataclass(frozen=True)
class Violation:
    """A schedule that breaks the promise, as short as it can be."""

    scenario: str
    script: Script
    problems: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"REPLAY='{written(self.scenario, self.script)}'"]
        return "\n".join([*lines, *(f"  {problem}" for problem in self.problems)])


@dataclass
class Report:
    """What was looked at, and what was found."""

    scenario: str
    schedules: int = 0
    merged: int = 0  # of these, came to a state that was looked at before
    states: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)  # by point and kind
    ends: Counter[str] = field(default_factory=Counter)  # how the job ended
    violations: list[Violation] = field(default_factory=list)
    broken: int = 0  # schedules that broke the promise, before they were shrunk
    complete: bool = True  # every schedule within the bound was looked at


class MergedError(BaseException):
    """This state was looked at before, and so was all that follows from it."""


def play(
    scenario: Scenario,
    chooser: Follow | Chance,
    *,
    listener: Callable[[float, str], None] | None = None,
    begin: Begin = World,
) -> tuple[Ground, list[str]]:
    """One schedule from its beginning to its end, and what it breaks."""
    schedule = Schedule(chooser)
    schedule.listener = listener
    world = begin(scenario, schedule)
    try:
        schedule.run()
    except RestlessError as error:
        return world, [*world.problems, str(error)]
    return world, world.broken()


class Explorer:
    """Explores one scenario."""

    def __init__(self, scenario: Scenario, bound: Bound, *, begin: Begin = World) -> None:
        self.scenario = scenario
        self.bound = bound
        self.given = changes_in(scenario.given)
        self.begin = begin
        self.report = Report(scenario.name)
        self._seen: dict[int, list[Left]] = {}
        self.merges = True

    def explore(self) -> Report:
        """All schedules within the bound, the simple ones first."""
        began = time.perf_counter()
        bound = self.bound
        level = [(self.given, Left(bound.faults, bound.holdups, bound.changes))]
        while level and not self._enough():
            deeper = []
            for script, left in self._affordable(level):
                if self._enough():
                    break
                for change in self._run(script, left):
                    rest = left.after(change)
                    if rest is not None:
                        deeper.append(((*script, change), rest))
            level = deeper
        for number in range(bound.random):
            if self._enough():
                break
            self._run_by_chance(bound.seed * 1_000_003 + number)
        self.report.states = len(self._seen)
        self.report.seconds = time.perf_counter() - began
        return self.report

    def _affordable(self, level: list[tuple[Script, Left]]) -> list[tuple[Script, Left]]:
        """All schedules of so many changes, or as many as the bound has room for, from all over."""
        room = self.bound.schedules - self.report.schedules
        if len(level) <= room:
            return level
        self.report.complete = False
        drawn = random.Random(self.bound.seed)  # noqa: S311  # nothing here is a secret
        return [level[index] for index in sorted(drawn.sample(range(len(level)), room))]

    def _enough(self) -> bool:
        report, most = self.report, self.bound.violations
        # Most of them shrink to the same few.
        return len(report.violations) >= most or report.broken >= 5 * most

    def _run(self, script: Script, left: Left) -> list[Change]:
        report = self.report
        report.schedules += 1
        report.faults.update(_told(change) for change in script if change.is_fault)
        chooser = Follow(script)
        schedule = Schedule(chooser)
        world = self.begin(self.scenario, schedule)
        chooser.unseen = lambda offered: self._merge(world, offered, left)
        try:
            schedule.run()
            problems = world.broken()
        except MergedError:
            report.merged += 1
            if not world.problems:
                return chooser.possible
            problems = world.problems  # those of the end were found where it was seen first
        except RestlessError as error:
            problems = [*world.problems, str(error)]
        self.judge(world, script, problems)
        return chooser.possible

    def _run_by_chance(self, seed: int) -> None:
        self.report.schedules += 1
        rate = (0.02, 0.05, 0.1)[seed % 3]
        chance = Chance(seed, changes=2 + seed % 6, rate=rate, given=self.given)
        world, problems = play(self.scenario, chance, begin=self.begin)
        self.report.faults.update(_told(one) for one in chance.script if one.is_fault)
        self.judge(world, tuple(chance.script), problems)

    def judge(self, world: Ground, script: Script, problems: list[str]) -> None:
        """Note how one schedule ended, and the shortest like it if it broke the promise."""
        self.report.ends.update(world.ends())
        if problems:
            self.report.broken += 1
            short = shrunk(self.scenario, script, begin=self.begin)
            _, problems = play(self.scenario, Follow(short), begin=self.begin)
            found = Violation(self.scenario.name, short, tuple(dict.fromkeys(problems)))
            if found not in self.report.violations:
                self.report.violations.append(found)

    def _merge(self, world: Ground, offered: tuple[str, ...], left: Left) -> None:
        if not self.merges:
            return
        try:
            state = world.digest((world.state(), offered))
        except CannotDigestError:
            self.merges = False
            return
        known = self._seen.setdefault(state, [])
        if any(one.covers(left) for one in known):
            raise MergedError
        known.append(left)


def shrunk(scenario: Scenario, script: Script, *, begin: Begin = World) -> Script:
    """The same violation, or another, from as few changes as possible."""
    for index in range(len(script)):
        shorter = (*script[:index], *script[index + 1 :])
        if play(scenario, Follow(shorter), begin=begin)[1]:
            return shrunk(scenario, shorter, begin=begin)
    return script


def _told(change: Change) -> str:
    return f"{change.place.point} {change.what[1:]}"
