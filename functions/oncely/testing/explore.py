"""One line of test for a team's own job: the same treatment that the shipped jobs get."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from oncely.contract import AnyContract
from oncely.domain.lifecycle import Status
from oncely.ports import Clock
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
    provider_method: str,
    count_effects: Callable[[Any], int],
    message: Mapping[str, object] | None = None,
    lookup_calls: Collection[str] = (),
    effect_calls: Collection[str] | None = None,
    seed_rows: Callable[[MemoryBusinessRows], None] = lambda _: None,
    check: Callable[[FinalState], Iterable[str]] = lambda _: (),
    limits: SearchLimits | None = None,
) -> ExplorationReport:
    """Try a contract under every schedule of two workers, sweeps, crashes, lost replies, replays.

        explore(BuildReport, provider=FakeReports, provider_method="reports", lookup_calls={"find"},
                count_effects=lambda reports: len(reports.built))

    `provider` makes a fresh fake of it for each schedule. `provider_method` is the method,
    of the contract or of its dependencies, that gives it. Its `lookup_calls` only read; its
    `effect_calls` (all other public ones, unless you say) may do something, be lost on the way
    there or back, or arrive late: then they raise TimeoutError, which your adapter may as well
    return as Ambiguous. `count_effects` counts what really happened at the provider; of a natural
    effect, 1 when it is in place. The contract's example is sent, unless you give a `message`.
    `seed_rows` fills your tables; `check` says what else must hold, by giving sentences where it
    does not. The default `limits` try every schedule of one change and a sample of two;
    `SearchLimits()` tries all pairs, in a minute or so.
    AssertionError tells the shortest schedules that break the promise, and the first step by step;
    or why the job comes to no end even when nothing goes wrong, since that would test nothing.
    """
    scenario = build_scenario(
        contract,
        message=contract.example.to_dict() if message is None else message,
        provider=lambda _: provider(),
        provider_method=provider_method,
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
        "fix the contract, or the `message`, `seed_rows`, `provider_method` or `provider` of this "
        "test"
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
    provider_method: str,
    count_effects: Callable[[Any], int],
    name: str = "",
    lookup_calls: Collection[str] = (),
    effect_calls: Collection[str] | None = None,
    seed_rows: Callable[[MemoryBusinessRows], None] = lambda _: None,
    check: Callable[[FinalState], Iterable[str]] = lambda _: (),
    fixed_prefix: str = "",
) -> Scenario:
    """The same as a scenario, for the command line: `provider` is given the explored clock."""

    def providers(clock: Clock) -> Mapping[str, ProviderSpec]:
        target = provider(clock)
        if unknown := {
            name for name in (*lookup_calls, *(effect_calls or ())) if not hasattr(target, name)
        }:
            raise ValueError(
                f"{type(target).__name__} has no {', '.join(sorted(unknown))}: "
                "`lookup_calls` and `effect_calls` name its calls"
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
        return {provider_method: described}

    return Scenario(
        name=name or contract.job_type,
        contracts=(_with_provider(contract, provider_method),),
        message=message,
        providers=providers,
        count_effects=lambda ended: count_effects(ended.providers[provider_method]),
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


def _with_provider(contract: type[AnyContract], provider_method: str) -> type[AnyContract]:
    """The contract as it is, but for where its provider comes from."""
    if not hasattr(contract, provider_method):
        return contract

    def given(self: AnyContract) -> Any:  # noqa: ANN401  # any provider
        return getattr(self.dependencies, provider_method)()

    return type(contract.__name__, (contract,), {provider_method: given})
