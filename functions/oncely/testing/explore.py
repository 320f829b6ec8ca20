"""One call that explores a job, as the shipped jobs are explored."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from oncely.contracts.job import AnyJob, JobSettings, providers_of
from oncely.core.lifecycle import ENDED, IN_REVIEW
from oncely.core.profiles import RetrySafety
from oncely.testing.explorer import ExplorationReport, Explorer, SearchLimits, run_schedule
from oncely.testing.http_model import HttpModel
from oncely.testing.rows import BusinessRows
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions, sandbox_type
from oncely.testing.scenario import FinalState, Scenario
from oncely.testing.schedule import ScriptedChooser
from oncely.testing.script import Script, format_script

# Every schedule with one injection: seconds, as a test of one job may take.
UNIT_TEST_LIMITS: Final = SearchLimits(injections=1, schedules=1_000)
# What the first request of an effect meets, beside the faults of every call.
_BAD_ANSWERS: Final = (
    FaultKind.ERROR_AFTER,
    FaultKind.GARBLED,
    FaultKind.CONFLICT,
    FaultKind.OUTAGE,
    FaultKind.RATE_LIMIT,
    FaultKind.UNAUTHORIZED,
)
# So many schedules with another fault, after a bad answer.
_AFTER_BAD_ANSWER: Final = 60
# What an API that refuses duplicates responds to a second request for the same thing.
_DUPLICATE_STATUSES: Final = (409, 422)


def explore(
    job: type[AnyJob],
    *,
    others: Sequence[type[AnyJob]] = (),
    message: Mapping[str, object] | None = None,
    seed_rows: Callable[[BusinessRows], None] = lambda _: None,
    settings: JobSettings | None = None,
    count_effects: Callable[[Any], int] | None = None,
    check: Callable[[FinalState], Iterable[str]] = lambda _: (),
    limits: SearchLimits = UNIT_TEST_LIMITS,
) -> tuple[ExplorationReport, ...]:
    """Explore a job with two workers, sweeps, crashes, lost responses and replays.

        explore(VoucherIssue)

    The shipped client of its provider runs over a model: the `sandbox` of the plug-in, or one that
    follows from its `HttpProvider`. For an HTTP job, each kind of bad answer is explored as well,
    and an API that refuses duplicates.

    `others` are the job types of its follow-ups. `message` defaults to the example of the job.
    `seed_rows` fills business tables. `settings` are those that the job declares. `count_effects`
    counts what happened in the model, by default the effects of the job. `check` yields a sentence
    for each further expectation that does not hold. `limits` are every schedule with one
    injection; `SearchLimits(schedules=10_000)` adds pairs.

    Raises AssertionError with the shortest schedule that violates an invariant, as a story. So does
    a job that does not end without faults, or that needs an operator after a single one although
    its safety could resolve it.
    """
    plain = build_scenario(
        job,
        others=others,
        message=message,
        seed_rows=seed_rows,
        settings=settings,
        count_effects=count_effects,
        check=check,
    )
    _require_completion(plain)
    if limits.injections <= 1:
        plain = replace(plain, check=lambda ended: (*check(ended), *_needless_reviews(ended, job)))
    few = replace(limits, injections=1, schedules=min(limits.schedules, _AFTER_BAD_ANSWER))
    reports = [_explore(plain, limits)]
    reports += [_explore(one, few) for one in _after_bad_answers(plain, others)]
    return tuple(reports)


def _explore(scenario: Scenario, limits: SearchLimits) -> ExplorationReport:
    report = Explorer(scenario, limits).explore()
    if report.violations:
        steps = _trace_schedule(scenario, report.violations[0].script)
        raise AssertionError("\n".join([*map(str, report.violations), *steps]))
    return report


def _after_bad_answers(plain: Scenario, others: Sequence[type[AnyJob]]) -> Iterator[Scenario]:
    """The same at an HTTP API whose first answer is a bad one, or that refuses duplicates."""
    jobs = (plain.contract, *others)
    plugin = plain.contract.all_providers()[0]
    model = sandbox_type(plugin, jobs)
    if not issubclass(model, HttpModel):
        return
    for kind in _BAD_ANSWERS:
        fault = {"kind": kind, **model.requests["perform"], "times": 1}
        yield replace(plain, name=f"{plain.name}/{kind}", provider_faults=(fault,))
    for status in _DUPLICATE_STATUSES:
        refusing = type(model.__name__, (model,), {"duplicate_status": status})
        name = f"{plain.name}/duplicate-{status}"
        yield replace(plain, name=name, providers=_models(jobs, {plugin.name: refusing}))


def _models(
    jobs: Sequence[type[AnyJob]], given: Mapping[str, type[ProviderSandbox]]
) -> Callable[[SandboxOptions], Mapping[str, ProviderSandbox | None]]:
    """Return what builds the models of the jobs' providers."""
    known = {
        plugin.name: given.get(plugin.name) or sandbox_type(plugin, jobs)
        for plugin in providers_of(jobs)
    }
    return lambda options: {name: kind(options) for name, kind in known.items()}


def _needless_reviews(ended: FinalState, job: type[AnyJob]) -> Iterator[str]:
    """A broken job may keep every invariant because everything goes to review."""
    if job.policy.safety is RetrySafety.AT_MOST_ONCE:
        return
    for row in ended.jobs.values():
        if row.job_type == job.job_type and row.status in IN_REVIEW:
            yield f"{row.job_key} needs review after one fault: {row.last_error}"


def _require_completion(scenario: Scenario) -> None:
    # A job that never runs violates no invariant.
    world, problems = run_schedule(scenario, ScriptedChooser(()))
    job_type, statuses = scenario.contract.job_type, set(world.final_statuses())
    if problems or statuses & {f"{job_type} {status}" for status in ENDED}:
        return
    problem = (
        f"{job_type} neither finishes nor fails without faults ({', '.join(statuses)}): "
        "fix the job, or this test's `message` or `seed_rows`"
    )
    raise AssertionError("\n".join([problem, *_trace_schedule(scenario, ()), *world.describe()]))


def _trace_schedule(scenario: Scenario, script: Script) -> list[str]:
    steps = [f"\nTrace of {format_script(scenario.name, script)}"]

    def note(seconds: float, line: str) -> None:
        steps.append(f"{seconds:>9.0f} s  {line}")

    run_schedule(scenario, ScriptedChooser(script), listener=note)
    return steps


def build_scenario(
    job: type[AnyJob],
    *,
    message: Mapping[str, object] | None = None,
    model: type[ProviderSandbox] | None = None,
    count_effects: Callable[[Any], int] | None = None,
    name: str = "",
    seed_rows: Callable[[BusinessRows], None] = lambda _: None,
    settings: JobSettings | None = None,
    check: Callable[[FinalState], Iterable[str]] = lambda _: (),
    fixed_prefix: str = "",
    others: Sequence[type[AnyJob]] = (),
) -> Scenario:
    """Build the same as a scenario, for the command line."""
    plugin = job.all_providers()[0]
    sent = job.example_message() if message is None else message
    if settings is None and job.settings is not None:
        settings = job.settings()  # names the fields that have no default
    key = job.model_validate(sent).job_key()

    def count(ended: FinalState) -> int:
        own = ended.providers[plugin.name]
        if count_effects is not None:
            return count_effects(own)
        done = sum(1 for one in own.ledger.effects() if one.key == key)
        # Repeating a natural effect changes nothing.
        return min(done, 1) if job.policy.safety is RetrySafety.NATURAL else done

    return Scenario(
        name=name or job.job_type,
        contracts=(job, *others),
        message=sent,
        providers=_models((job, *others), {} if model is None else {plugin.name: model}),
        count_effects=count,
        seed_rows=seed_rows,
        job_settings=() if settings is None else (settings,),
        check=check,
        fixed_prefix=fixed_prefix,
    )
