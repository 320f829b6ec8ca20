"""One line of test for a team's own job: the same treatment that the shipped jobs get."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from oncely.contract import AnyContract
from oncely.domain.lifecycle import Status
from oncely.ports import Clock
from oncely.testing.choosers import Follow
from oncely.testing.explorer import Bound, Explorer, Report, play
from oncely.testing.memory import MemoryRows
from oncely.testing.scenario import Ended, Provider, Scenario
from oncely.testing.script import Script, written

# Every schedule of one change and a sample of those of two: seconds, not minutes.
UNIT_TEST_BOUND: Final = Bound(schedules=1_000)


def explore(
    contract: type[AnyContract],
    *,
    provider: Callable[[], Any],
    named: str,
    effects: Callable[[Any], int],
    message: Mapping[str, object] | None = None,
    asks: Collection[str] = (),
    acts: Collection[str] | None = None,
    rows: Callable[[MemoryRows], None] = lambda _: None,
    check: Callable[[Ended], Iterable[str]] = lambda _: (),
    bound: Bound | None = None,
) -> Report:
    """Try a contract under every schedule of two workers, sweeps, crashes, lost replies, replays.

        explore(BuildReport, provider=FakeReports, named="reports", asks={"find"},
                effects=lambda reports: len(reports.built))

    `provider` makes a fresh fake of the outside for each schedule. `named` is the method, of the
    contract or of its tools, that gives it. Its calls in `asks` only read; those in `acts` (all
    other public ones, unless you say) may do something, be lost on the way there or back, or
    arrive late: then they raise TimeoutError, which your adapter may as well answer as Unclear.
    `effects` counts what really happened outside; of a natural effect, 1 when it is in place.
    The contract's example is sent, unless you give a `message`. `rows` fills your tables; `check`
    says what else must hold, by giving sentences where it does not. The default `bound` tries
    every schedule of one change and a sample of two; `Bound()` tries all pairs, in a minute or so.
    AssertionError tells the shortest schedules that break the promise, and the first step by step;
    or why the job comes to no end even when nothing goes wrong, since that would test nothing.
    """
    scenario = own_job(
        contract,
        message=contract.example.as_json() if message is None else message,
        provider=lambda _: provider(),
        named=named,
        effects=effects,
        asks=asks,
        acts=acts,
        rows=rows,
        check=check,
    )
    _comes_to_an_end(scenario)
    report = Explorer(scenario, bound or UNIT_TEST_BOUND).explore()
    if report.violations:
        told = _told(scenario, report.violations[0].script)
        raise AssertionError("\n".join([*map(str, report.violations), *told]))
    return report


def _comes_to_an_end(scenario: Scenario) -> None:
    """A job that never does anything keeps every promise: that would test nothing."""
    world, problems = play(scenario, Follow(()))
    job_type, ends = scenario.contract.job_type, set(world.ends())
    if problems or ends & {f"{job_type} {Status.FINISHED}", f"{job_type} {Status.FAILED}"}:
        return
    told = (
        f"{job_type} neither finishes nor fails even when nothing goes wrong ({', '.join(ends)}): "
        "mend the contract, or the `message`, `rows`, `named` or `provider` of this test"
    )
    raise AssertionError("\n".join([told, *_told(scenario, ()), *world.story()]))


def _told(scenario: Scenario, script: Script) -> list[str]:
    """What happened in a schedule, one line for each step."""
    steps = [f"\nHow it comes to that, with {written(scenario.name, script)}"]

    def note(seconds: float, line: str) -> None:
        steps.append(f"{seconds:>9.0f} s  {line}")

    play(scenario, Follow(script), listener=note)
    return steps


def own_job(
    contract: type[AnyContract],
    *,
    message: Mapping[str, object],
    provider: Callable[[Clock], Any],
    named: str,
    effects: Callable[[Any], int],
    name: str = "",
    asks: Collection[str] = (),
    acts: Collection[str] | None = None,
    rows: Callable[[MemoryRows], None] = lambda _: None,
    check: Callable[[Ended], Iterable[str]] = lambda _: (),
    given: str = "",
) -> Scenario:
    """The same as a scenario, for the command line: `provider` is given the explored clock."""

    def providers(clock: Clock) -> Mapping[str, Provider]:
        target = provider(clock)
        if unknown := {name for name in (*asks, *(acts or ())) if not hasattr(target, name)}:
            raise ValueError(
                f"{type(target).__name__} has no {', '.join(sorted(unknown))}: "
                "`asks` and `acts` name its calls"
            )
        acting = _calls(target) - set(asks) if acts is None else acts
        lost = TimeoutError("no answer in time")
        described = Provider(
            target=target, acts=dict.fromkeys(acting, lost), asks=dict.fromkeys(asks, lost)
        )
        return {named: described}

    return Scenario(
        name=name or contract.job_type,
        contracts=(_with_provider(contract, named),),
        message=message,
        providers=providers,
        effects=lambda ended: effects(ended.providers[named]),
        rows=rows,
        check=check,
        given=given,
    )


def _calls(target: object) -> set[str]:
    return {
        name
        for name in dir(type(target))
        if not name.startswith("_") and callable(getattr(type(target), name))
    }


def _with_provider(contract: type[AnyContract], named: str) -> type[AnyContract]:
    """The contract as it is, but for where its provider comes from."""
    if not hasattr(contract, named):
        return contract

    def given(self: AnyContract) -> Any:  # noqa: ANN401  # any provider
        return getattr(self.tools, named)()

    return type(contract.__name__, (contract,), {named: given})
