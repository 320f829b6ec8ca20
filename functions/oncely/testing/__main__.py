"""`python -m oncely.testing <module with SCENARIOS>`: explore, or replay one schedule."""

import argparse
import importlib
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import Pool
from typing import Final

from oncely.testing.explorer import (
    ExplorationReport,
    Explorer,
    SearchLimits,
    SimulationFactory,
    run_schedule,
)
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import ScriptedChooser
from oncely.testing.script import Script, format_script, parse_script
from oncely.testing.world import Simulation

# Every schedule with one injection of any shipped scenario, and many with two. For all scenarios
# that is about 25 minutes on two cores: as long as a developer waits.
DEFAULT_SCHEDULES: Final = 1000
DEFAULT_RANDOM_SCHEDULES: Final = 100
_COLUMNS: Final = "{:<32}{:>11}{:>9}{:>11}{:>9}  {}\n"


def main(arguments: Sequence[str]) -> int:
    """Explore and print the results. Returns 1 if a schedule violates an invariant."""
    options = _parse_options(arguments)
    if options.replay:
        return replay_schedule(options.module, options.replay)
    names = [one.name for one in _scenarios(options.module) if options.only in one.name]
    if not names:
        sys.stderr.write(f"no scenario of {options.module} has {options.only!r} in its name\n")
        return 2
    bound = SearchLimits(
        injections=options.changes,
        schedules=options.schedules,
        random_schedules=options.random,
        seed=options.seed,
    )
    reports = []
    sys.stdout.write(_COLUMNS.format("scenario", "schedules", "states", "seconds", "violated", ""))
    with Pool(options.processes) as pool:
        explored = pool.imap_unordered(partial(_explore, options.module, bound), names)
        for report in explored:
            _print_report(report)
            reports.append(report)
            if options.stop and report.violations:
                break
    return _print_totals(reports)


def replay_schedule(module: str, text: str) -> int:
    """Replay one schedule and print each step."""
    name, script = parse_script(text)
    scenario = next((one for one in _scenarios(module) if one.name == name), None)
    if scenario is None:
        sys.stderr.write(f"{module} has no scenario {name!r}\n")
        return 2
    return print_schedule(scenario, script)


def print_schedule(
    scenario: Scenario, script: Script, *, simulation_factory: SimulationFactory = Simulation
) -> int:
    """Print each step of a schedule and its violations. Returns 1 if there are any."""
    chooser = ScriptedChooser(script)
    world, problems = run_schedule(
        scenario, chooser, listener=_print_step, simulation_factory=simulation_factory
    )
    if chooser.remaining:
        sys.stdout.write(f"{chooser.remaining} injections of this script were never reached\n")
    sys.stdout.write("".join(f"{line}\n" for line in world.describe()))
    summary = "\n".join(f"  {problem}" for problem in problems) or "  all invariants hold"
    sys.stdout.write(f"\n{format_script(scenario.name, script)}\n{summary}\n")
    return 1 if problems else 0


def _print_step(seconds: float, line: str) -> None:
    sys.stdout.write(f"{seconds:>9.0f} s  {line}\n")


def _explore(module: str, limits: SearchLimits, name: str) -> ExplorationReport:
    scenario = next(one for one in _scenarios(module) if one.name == name)
    if scenario.through_botocore:
        # Its schedules take several times as long. The others explore what follows from two faults.
        limits = replace(limits, injections=min(limits.injections, 1), random_schedules=0)
    return Explorer(scenario, limits).explore()


def _scenarios(module: str) -> tuple[Scenario, ...]:
    scenarios: tuple[Scenario, ...] = importlib.import_module(module).SCENARIOS
    return scenarios


def _print_report(report: ExplorationReport) -> None:
    statuses = ", ".join(f"{count} {one}" for one, count in sorted(report.final_statuses.items()))
    sys.stdout.write(
        _COLUMNS.format(
            report.scenario,
            f"{report.schedules}{'' if report.complete else '+'}",
            report.states,
            f"{report.seconds:.1f}",
            len(report.violations),
            statuses,
        )
    )
    for violation in report.violations:
        sys.stdout.write(f"{violation}\n")
    sys.stdout.flush()


def _print_totals(reports: Sequence[ExplorationReport]) -> int:
    faults: Counter[str] = Counter()
    for report in reports:
        faults.update(report.faults)
    sys.stdout.write("\nfaults by call:\n")
    for point, count in sorted(faults.items()):
        sys.stdout.write(f"  {point:<28}{count:>9}\n")
    schedules = sum(report.schedules for report in reports)
    states = sum(report.states for report in reports)
    violations = sum(len(report.violations) for report in reports)
    seconds = sum(report.seconds for report in reports)
    sys.stdout.write(
        f"\n{schedules} schedules, {states} distinct states, {sum(faults.values())} faults, "
        f"{seconds:.0f} s of CPU time: {violations} violate an invariant\n"
    )
    return 1 if violations else 0


def _parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    bound = SearchLimits()
    parser = argparse.ArgumentParser(prog="oncely.testing", description=__doc__)
    parser.add_argument("module", help="module with SCENARIOS")
    parser.add_argument("--only", default="", help="only scenarios with this text in their name")
    parser.add_argument(
        "--changes",
        type=int,
        default=bound.injections,
        help="maximum faults and delays per schedule",
    )
    parser.add_argument(
        "--schedules", type=int, default=DEFAULT_SCHEDULES, help="maximum per scenario"
    )
    parser.add_argument(
        "--random", type=int, default=DEFAULT_RANDOM_SCHEDULES, help="additional, per scenario"
    )
    parser.add_argument("--seed", type=int, default=bound.seed, help="seed of random schedules")
    parser.add_argument("--processes", type=int, default=2, help="number of processes")
    parser.add_argument("--stop", action="store_true", help="stop after the first violation")
    parser.add_argument("--replay", default="", help="replay a printed script")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
