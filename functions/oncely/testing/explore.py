"""One line of test for a team's own job: the same treatment that the shipped jobs get."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from oncely.contract import AnyContract
from oncely.domain.lifecycle import Status
from oncely.ports import Clock
from oncely.provider import AnyProvider
from oncely.testing.choosers import ScriptedChooser
from oncely.testing.explorer import ExplorationReport, Explorer, SearchLimits, run_schedule
from oncely.testing.memory import MemoryBusinessRows
from oncely.testing.scenario import FinalState, ProviderSpec, Scenario
from oncely.testing.script import Script, format_script

# Every schedule of one change and a sample of those of two: seconds, not minutes.
UNIT_TEST_LIMITS: Final = SearchLimits(schedules=1_000)


def explore(
    contract: type[AnyContract],
    *,
    provider: Callable[[], Any],
    plugin: AnyProvider | None = None,
    count_effects: Callable[[Any], int],
    message: Mapping[str, object] | None = None,
    lookup_calls: Collection[str] = (),
    effect_calls: Collection[str] | None = None,
    seed_rows: Callable[[MemoryBusinessRows], None] = lambda _: None,
    check: Callable[[FinalState], Iterable[str]] = lambda _: (),
    limits: SearchLimits | None = None,
) -> ExplorationReport:
    """Try a contract under every schedule of two workers, sweeps, crashes, lost replies, replays.

        explore(BuildReport, provider=FakeReports, lookup_calls={"find"},
                count_effects=lambda reports: len(reports.built))

    `provider` builds a fresh fake for each schedule; it takes the place of `plugin`, by default the
    first provider in the contract's resources. Its `lookup_calls` only read. Its `effect_calls`
    (by default all other public methods) may act, be lost on the way there or back, or arrive
    late; then they raise TimeoutError, which an adapter may also report as Ambiguous.
    `count_effects` counts what really happened; for a natural effect, 1 once it is in place.
    `message` defaults to the contract's example. `seed_rows` fills business tables. `check` yields
    a sentence for each further expectation that does not hold. The default `limits` try every
    schedule of one fault and a sample of two; `SearchLimits()` tries all pairs in about a minute.

    Raises AssertionError with the shortest schedules that break the promise, the first step by
    step, or if the job does not end even without faults, since that would test nothing.
    """
    scenario = build_scenario(
        contract,
        message=contract.example.to_dict() if message is None else message,
        provider=lambda _: provider(),
        plugin=plugin,
        count_effects=count_effects,
        lookup_calls=lookup_calls,
        effect_calls=effect_calls,
        seed_rows=seed_rows,
        check=check,
    )
    _require_completion(scenario)
    report = Explorer(scenario, limits or UNIT_TEST_LIMITS).explore()
    if report.violations:
        steps = _trace_schedule(scenario, report.violations[0].script)
        raise AssertionError("\n".join([*map(str, report.violations), *steps]))
    return report


def _require_completion(scenario: Scenario) -> None:
    """A job that never does anything keeps every promise: that would test nothing."""
    world, problems = run_schedule(scenario, ScriptedChooser(()))
    job_type, ends = scenario.contract.job_type, set(world.final_statuses())
    if problems or ends & {f"{job_type} {Status.FINISHED}", f"{job_type} {Status.FAILED}"}:
        return
    problem = (
        f"{job_type} neither finishes nor fails even when nothing goes wrong ({', '.join(ends)}): "
        "fix the contract, or this test's `message`, `seed_rows`, `plugin` or `provider`"
    )
    raise AssertionError("\n".join([problem, *_trace_schedule(scenario, ()), *world.describe()]))


def _trace_schedule(scenario: Scenario, script: Script) -> list[str]:
    """What happened in a schedule, one line for each step."""
    steps = [f"\nHow it comes to that, with {format_script(scenario.name, script)}"]

    def note(seconds: float, line: str) -> None:
        steps.append(f"{seconds:>9.0f} s  {line}")

    run_schedule(scenario, ScriptedChooser(script), listener=note)
    return steps


def build_scenario(
    contract: type[AnyContract],
    *,
    message: Mapping[str, object],
    provider: Callable[[Clock], Any],
    plugin: AnyProvider | None = None,
    count_effects: Callable[[Any], int],
    name: str = "",
    lookup_calls: Collection[str] = (),
    effect_calls: Collection[str] | None = None,
    seed_rows: Callable[[MemoryBusinessRows], None] = lambda _: None,
    check: Callable[[FinalState], Iterable[str]] = lambda _: (),
    fixed_prefix: str = "",
) -> Scenario:
    """The same as a scenario, for the command line: `provider` is given the explored clock."""
    name_of_plugin = (plugin or contract.resources.providers[0]).name

    def providers(clock: Clock) -> Mapping[str, ProviderSpec]:
        target = provider(clock)
        if unknown := {
            name for name in (*lookup_calls, *(effect_calls or ())) if not hasattr(target, name)
        }:
            raise ValueError(
                f"{type(target).__name__} has no {', '.join(sorted(unknown))}: "
                "`lookup_calls` and `effect_calls` name its methods"
            )
        acting = (
            _public_methods(target) - set(lookup_calls) if effect_calls is None else effect_calls
        )
        lost = TimeoutError("no answer in time")
        described = ProviderSpec(
            target=target,
            effect_calls=dict.fromkeys(acting, lost),
            lookup_calls=dict.fromkeys(lookup_calls, lost),
        )
        return {name_of_plugin: described}

    return Scenario(
        name=name or contract.job_type,
        contracts=(contract,),
        message=message,
        providers=providers,
        count_effects=lambda ended: count_effects(ended.providers[name_of_plugin]),
        seed_rows=seed_rows,
        check=check,
        fixed_prefix=fixed_prefix,
    )


def _public_methods(target: object) -> set[str]:
    return {
        name
        for name in dir(type(target))
        if not name.startswith("_") and callable(getattr(type(target), name))
    }
