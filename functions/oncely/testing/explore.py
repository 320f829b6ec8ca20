"""One call that explores a contract, as the shipped jobs are explored."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from oncely.contracts.job import AnyJob, JobSettings
from oncely.core.lifecycle import ENDED
from oncely.plugins.provider import AnyProvider
from oncely.testing.explorer import ExplorationReport, Explorer, SearchLimits, run_schedule
from oncely.testing.rows import BusinessRows
from oncely.testing.sandbox.provider_sandbox import (
    ProviderSandbox,
    SandboxOptions,
    sandbox_type,
)
from oncely.testing.scenario import FinalState, ProviderSpec, Scenario
from oncely.testing.schedule import ScriptedChooser
from oncely.testing.script import Script, format_script

# Every schedule with one injection and a sample of those with two: seconds, not minutes.
UNIT_TEST_LIMITS: Final = SearchLimits(schedules=1_000)


def explore(
    contract: type[AnyJob],
    *,
    provider: Callable[[], Any] | None = None,
    plugin: AnyProvider | None = None,
    count_effects: Callable[[Any], int],
    message: Mapping[str, object] | None = None,
    lookup_calls: Collection[str] = (),
    effect_calls: Collection[str] | None = None,
    seed_rows: Callable[[BusinessRows], None] = lambda _: None,
    settings: JobSettings | None = None,
    check: Callable[[FinalState], Iterable[str]] = lambda _: (),
    limits: SearchLimits | None = None,
) -> ExplorationReport:
    """Explore a contract with two workers, sweeps, crashes, lost responses and replays.

        explore(BuildReport, provider=FakeReports, lookup_calls={"find"},
                count_effects=lambda reports: len(reports.built))

    `provider` builds a new fake client for each schedule. It replaces that of `plugin`, by default
    the first provider in the contract's resources. Its `lookup_calls` only read. Its
    `effect_calls` (by default all other public methods) may succeed, lose the request or the
    response, or arrive late; then they raise TimeoutError, which an adapter may also report as
    Ambiguous. Without a `provider`, the plug-in's own client runs over its model, the `sandbox`.
    `count_effects` counts the effects that happened; for a natural effect, 1 once it is in place.
    `message` defaults to the contract's example. `seed_rows` fills business tables. `settings`
    are those that the contract declares, by default with their defaults. `check` yields a sentence
    for each further expectation that does not hold. The default `limits` try every
    schedule with one injection and a sample with two; `SearchLimits()` tries all pairs in about a
    minute.

    Raises AssertionError with the shortest schedules that violate an invariant and a trace of the
    first, or if the job does not end without faults, since that would test nothing.
    """
    plugin = plugin or contract.all_providers()[0]
    if provider is None and plugin.sandbox is None:
        raise ValueError(
            f"the plug-in {plugin.name} has no model: set `sandbox`, or pass `provider`"
        )
    scenario = build_scenario(
        contract,
        message=contract.example_message() if message is None else message,
        provider=sandbox_type(plugin) if provider is None else lambda _: provider(),
        plugin=plugin,
        count_effects=count_effects,
        lookup_calls=lookup_calls,
        effect_calls=effect_calls,
        seed_rows=seed_rows,
        settings=settings,
        check=check,
    )
    _require_completion(scenario)
    report = Explorer(scenario, limits or UNIT_TEST_LIMITS).explore()
    if report.violations:
        steps = _trace_schedule(scenario, report.violations[0].script)
        raise AssertionError("\n".join([*map(str, report.violations), *steps]))
    return report


def _require_completion(scenario: Scenario) -> None:
    # A job that never runs violates no invariant.
    world, problems = run_schedule(scenario, ScriptedChooser(()))
    job_type, statuses = scenario.contract.job_type, set(world.final_statuses())
    if problems or statuses & {f"{job_type} {status}" for status in ENDED}:
        return
    problem = (
        f"{job_type} neither finishes nor fails without faults ({', '.join(statuses)}): "
        "fix the contract, or this test's `message`, `seed_rows`, `plugin` or `provider`"
    )
    raise AssertionError("\n".join([problem, *_trace_schedule(scenario, ()), *world.describe()]))


def _trace_schedule(scenario: Scenario, script: Script) -> list[str]:
    steps = [f"\nTrace of {format_script(scenario.name, script)}"]

    def note(seconds: float, line: str) -> None:
        steps.append(f"{seconds:>9.0f} s  {line}")

    run_schedule(scenario, ScriptedChooser(script), listener=note)
    return steps


def build_scenario(
    contract: type[AnyJob],
    *,
    message: Mapping[str, object],
    provider: Callable[[SandboxOptions], Any],
    plugin: AnyProvider | None = None,
    count_effects: Callable[[Any], int],
    name: str = "",
    lookup_calls: Collection[str] = (),
    effect_calls: Collection[str] | None = None,
    seed_rows: Callable[[BusinessRows], None] = lambda _: None,
    settings: JobSettings | None = None,
    check: Callable[[FinalState], Iterable[str]] = lambda _: (),
    fixed_prefix: str = "",
) -> Scenario:
    """Build the same as a scenario, for the command line.

    `provider` gets the simulated time, and may return a model instead of a fake client.
    """
    plugin_name = (plugin or contract.all_providers()[0]).name
    if settings is None and contract.settings is not None:
        settings = contract.settings()  # names the fields that have no default

    def providers(options: SandboxOptions) -> Mapping[str, ProviderSpec | ProviderSandbox]:
        target = provider(options)
        if isinstance(target, ProviderSandbox):
            return {plugin_name: target}
        if unknown := {
            name for name in (*lookup_calls, *(effect_calls or ())) if not hasattr(target, name)
        }:
            raise ValueError(
                f"{type(target).__name__} has no {', '.join(sorted(unknown))}: "
                "`lookup_calls` and `effect_calls` name its methods"
            )
        effects = (
            _public_methods(target) - set(lookup_calls) if effect_calls is None else effect_calls
        )
        spec = ProviderSpec(target=target, effect_calls=effects, lookup_calls=lookup_calls)
        return {plugin_name: spec}

    return Scenario(
        name=name or contract.job_type,
        contracts=(contract,),
        message=message,
        providers=providers,
        count_effects=lambda ended: count_effects(ended.providers[plugin_name]),
        seed_rows=seed_rows,
        job_settings=() if settings is None else (settings,),
        check=check,
        fixed_prefix=fixed_prefix,
    )


def _public_methods(target: object) -> set[str]:
    return {
        name
        for name in dir(type(target))
        if not name.startswith("_") and callable(getattr(type(target), name))
    }
