"""A sample of schedules holds for every scenario, and injected bugs are found.

`.ci/run` explores every schedule with one injection, in `make faults`.
"""

import gc
import weakref
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from oncely import Provider, ProviderAccess, ProviderProfile, ProviderSettings
from oncely.contracts.job import AnyJob, Job, JobSettings
from oncely.core import attempt, decide
from oncely.core.effect_outcomes import EffectOutcome
from oncely.core.ended_jobs import MONEY_RETENTION, awaits_publishing, mark_published
from oncely.core.job_row import JobRow
from oncely.core.job_type import Call, PrecheckResult
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.profiles import RetryPolicy, RetrySafety
from oncely.core.row_items import serialize_job
from oncely.core.store import JobStore
from oncely.history.checker import Rule
from oncely.jobs.receipt_send import ReceiptSend
from oncely.operate.own_tables import JOBS
from oncely.plugins.http_provider import HttpProvider
from oncely.publish.publisher import EndedJobPublisher
from oncely.testing import SearchLimits, explore
from oncely.testing.explorer import Explorer, run_schedule
from oncely.testing.http_model import HttpRequest
from oncely.testing.scenario import Scenario
from oncely.testing.schedule import ScriptedChooser
from oncely.testing.script import format_script, parse_injections, parse_script
from oncely.testing.world import Simulation
from tests.faults.safety_classes import DAY, EffectModel, safety_scenario
from tests.faults.scenarios import SCENARIOS, seed_paid_order

SAMPLE = SearchLimits(injections=1, schedules=30, random_schedules=3)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


class LetterSend(Job):
    """A letter is sent."""

    key = "letter_id"
    provider = HttpProvider("letters", key_ttl="24h")
    letter_id: str

    def execute(self, call: Call) -> EffectOutcome:
        return call.post("/letters", json={"letter": self.letter_id})


def first_violation(scenario: Scenario, bound: SearchLimits) -> str:
    report = Explorer(scenario, bound).explore()
    assert report.violations, f"{report.schedules} schedules, and nothing was found"
    found = report.violations[0]
    return format_script(found.scenario, found.script)


def test_schedule_leaves_nothing_in_memory() -> None:
    """Otherwise thousands of schedules hold a gigabyte, and garbage collection takes a third."""
    world, _ = run_schedule(BY_NAME["payment.charge/keys"], ScriptedChooser(()))
    world_after_gc = weakref.ref(world)

    del world
    gc.collect()

    assert world_after_gc() is None


def test_write_against_life_cycle_is_found() -> None:
    """The rules of `oncely.history.checker` see every write, not only the last row."""
    world, problems = run_schedule(BY_NAME["payment.charge/keys"], ScriptedChooser(()))
    assert isinstance(world, Simulation)
    (ended,) = (job for job in world.jobs.values() if job.ended)
    started = replace(ended, status=Status.STARTED, version=ended.version + 1, expires_at=None)

    with world.interceptor.silence():
        world.aws.clients.dynamodb.put_item(TableName=JOBS, Item=serialize_job(started))

    assert not problems
    found = f"{ended.job_key}, version {started.version}: {Rule.NOT_CONTRADICTED.sentence}"
    assert found in world.problems


def assert_replays(script: str, problem: str) -> None:
    name, changes = parse_script(script)
    follow = ScriptedChooser(changes)

    _, problems = run_schedule(BY_NAME[name], follow)

    assert follow.remaining == 0, "the script meets every place that it names"
    assert problem in problems
    for left_out in range(len(parse_injections(BY_NAME[name].fixed_prefix)), len(changes)):
        shorter = (*changes[:left_out], *changes[left_out + 1 :])
        assert not run_schedule(BY_NAME[name], ScriptedChooser(shorter))[1], (
            "a shorter script would do"
        )


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_invariants_hold_in_sampled_schedules(name: str) -> None:
    report = Explorer(BY_NAME[name], SAMPLE).explore()
    assert report.violations == [], "\n".join(map(str, report.violations))
    assert report.schedules == SAMPLE.schedules + SAMPLE.random_schedules


def test_premature_lookup_is_found_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(job: JobRow, terms: RetryPolicy) -> object:
        return job.created_at

    monkeypatch.setattr(decide, "absence_conclusive_at", at_once)

    script = first_violation(BY_NAME["test.effect/lookup"], SearchLimits(injections=1))

    assert script == "test.effect/lookup: w1:outside.do!late"
    assert_replays(script, "the effect of test.effect:seven happened 2 times")


def test_random_violation_is_shrunk_to_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "absence_conclusive_at", lambda job, policy: job.created_at)
    bound = SearchLimits(injections=0, random_schedules=400, max_violations=1)
    assert len(parse_script(first_violation(BY_NAME["test.effect/lookup"], bound))[1]) == 1


def test_shrunk_script_keeps_the_fixed_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "absence_conclusive_at", lambda job, policy: job.created_at)
    prefix = "w1:outside.do>deliver"  # the bug does not need it
    scenario = replace(BY_NAME["test.effect/lookup"], fixed_prefix=prefix)

    script = first_violation(scenario, SearchLimits(injections=1))

    assert script == f"test.effect/lookup: {prefix} w1:outside.do!late"


def test_explore_derives_the_model_of_an_http_api() -> None:
    plain, *with_bad_answers = explore(LetterSend, limits=SearchLimits(injections=1, schedules=30))

    assert plain.final_statuses.keys() == {"letter.send finished"}
    assert {one.scenario for one in with_bad_answers} >= {
        "letter.send/garbled",
        "letter.send/duplicate-409",
    }


def test_explore_uses_model_of_the_plugin() -> None:
    (report,) = explore(
        ReceiptSend,
        seed_rows=seed_paid_order,
        count_effects=lambda model: len(model.ledger.mails),
        limits=SearchLimits(injections=1),
    )

    assert report.final_statuses.keys() == {"receipt.send finished", "receipt.send needs_review"}


class LetterSettings(JobSettings):
    letter_suffix: str


class LetterWithSettings(LetterSend):
    def precheck(self) -> PrecheckResult[None]:
        self.tools.job_settings(LetterSettings)
        return super().precheck()


def explore_once(job: type[AnyJob], **given: Any) -> set[str]:  # noqa: ANN401  # of `explore`
    report, *_ = explore(job, limits=SearchLimits(injections=0), **given)
    return set(report.final_statuses)


def test_explore_passes_declared_settings() -> None:
    class Declared(LetterWithSettings):
        settings = LetterSettings

    given = LetterSettings(letter_suffix="!")
    assert explore_once(Declared, settings=given) == {"letter.send finished"}
    with pytest.raises(ValidationError, match="letter_suffix"):
        explore_once(Declared)


def test_explore_refuses_settings_that_no_job_declares() -> None:
    with pytest.raises(AssertionError, match="add `settings = LetterSettings` to it"):
        explore_once(LetterWithSettings)


class _Unmodelled(Provider[object, ProviderSettings]):
    name = "unmodelled"
    profile = ProviderProfile(name="Acme", request_timeout=timedelta(seconds=5), max_calls=1)

    def connect(self, access: ProviderAccess[ProviderSettings]) -> object:
        return object()


def test_explore_without_model_says_what_to_set() -> None:
    class LetterAway(Job):
        """A letter."""

        key = "letter_id"
        provider = _Unmodelled()
        letter_id: str

        def execute(self, call: Call) -> EffectOutcome:
            raise NotImplementedError

    with pytest.raises(ValueError, match="has no model: set its `sandbox`"):
        explore_once(LetterAway)


def test_example_is_sent_when_message_is_omitted() -> None:
    class WithExample(LetterSend):
        example: ClassVar = {"letter_id": "eight"}

    with pytest.raises(AssertionError, match=r"letter\.send:eight is finished") as told:
        explore_once(WithExample, count_effects=lambda _: 0)  # as if nothing ever happened

    assert "w1:letters.perform →" in str(told.value), "the steps are told as well"


def test_job_that_never_ends_fails_exploration() -> None:
    class Broken(LetterSend):
        def execute(self, call: Call) -> EffectOutcome:
            raise AttributeError("no such thing")

    with pytest.raises(AssertionError, match="neither finishes nor fails") as told:
        explore_once(Broken)

    assert "no such thing" in str(told.value), "why is told as well"


def test_repeated_problem_is_reported_once() -> None:
    class Raising(LetterSend):
        def precheck(self) -> PrecheckResult[None]:
            raise KeyError(self.letter_id)

    with pytest.raises(AssertionError) as told:
        explore_once(Raising)

    assert str(told.value).count("a worker raised KeyError") == 1


@pytest.mark.parametrize(
    ("safety", "declared"),
    [
        pytest.param(RetrySafety.NATURAL, {}, id="called natural, and it is not"),
        pytest.param(RetrySafety.KEYED, {"window": DAY}, id="called keyed, and it is not"),
        pytest.param(
            RetrySafety.LOOKUP, {"lag": timedelta(0)}, id="called consistent, and it lags"
        ),
    ],
)
def test_job_that_overstates_its_provider_is_found(
    safety: RetrySafety, declared: dict[str, Any]
) -> None:
    class Lagging(EffectModel):
        lag = timedelta(days=10_000)

        def _is_natural(self, _: HttpRequest) -> bool:
            return False

    scenario = safety_scenario(
        "wrong", safety, **declared, key_ttl=timedelta(0), model=Lagging, is_natural=False
    )

    found = Explorer(scenario, SearchLimits(injections=1)).explore().violations

    assert any("happened 2 times" in problem for one in found for problem in one.problems)


def test_merging_equal_states_loses_no_ending() -> None:
    scenario = BY_NAME["test.effect/lookup-lagging"]
    merging, plain = (Explorer(scenario, SearchLimits(injections=1)) for _ in range(2))
    plain.merges_states = False

    merged, whole = merging.explore(), plain.explore()

    assert merged.merged_schedules > 0
    assert whole.merged_schedules == 0
    assert merged.schedules == whole.schedules
    assert merged.final_statuses.keys() == whole.final_statuses.keys()


def test_script_round_trips() -> None:
    text = "payment.charge/keys: w1:jobs.update_item!lost w2:clock#3>sweep r1:end!die"
    assert format_script(*parse_script(text)) == text
    with pytest.raises(ValueError, match="must have the form"):
        parse_script("payment.charge/keys: w1.claim")


def test_store_that_ignores_owner_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = JobStore.swap

    def swap(self: JobStore, before: JobRow, after: JobRow, **business_writes: Any) -> object:  # noqa: ANN401  # as it came
        row = self.get(before.job_key) or before
        return original(self, row, after, **business_writes)

    monkeypatch.setattr(JobStore, "swap", swap)

    script = first_violation(BY_NAME["sync.contact"], SearchLimits(injections=1))

    assert "sync.contact: w1:" in script


def test_reference_saved_by_lost_owner_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        JobRow, "same_owner_and_status_as", lambda self, row: row.status is self.status
    )

    script = first_violation(BY_NAME["payment.charge/zombie"], SearchLimits(injections=1))

    assert_replays(script, "the effect of payment.charge:order_18452 happened 2 times")


def test_key_that_never_expires_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "_can_resend", lambda job, policy, *, key_scope, now: True)
    script = first_violation(BY_NAME["test.effect/keyed-brief-window"], SearchLimits(injections=1))
    assert_replays(script, "the effect of test.effect:seven happened 2 times")


@pytest.mark.parametrize(
    ("name", "owed"),
    [
        ("payment.charge/with-event", "its event"),
        ("payment.charge/with-receipt", "its follow-up receipt.send"),
    ],
)
def test_row_that_expires_before_publication_is_found(
    name: str, owed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "_has_follow_ups", lambda _contract, _job: False)
    script = first_violation(BY_NAME[name], SearchLimits(injections=1))
    assert_replays(script, f"payment.charge:order_18452 may expire, and {owed} was not sent")


def test_publisher_that_clears_before_it_sends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def clears_first(publisher: EndedJobPublisher, key: JobKey) -> bool:
        job = publisher.store.get(key)
        if job is None or not awaits_publishing(job):
            return False
        publisher.store.swap(
            job, mark_published(job, retention=MONEY_RETENTION, now=publisher.clock.now())
        )
        return True

    monkeypatch.setattr(EndedJobPublisher, "publish", clears_first)

    script = first_violation(BY_NAME["payment.charge/with-receipt"], SearchLimits(injections=1))

    told = "payment.charge:order_18452 may expire, and its follow-up receipt.send was not sent"
    assert_replays(script, told)


def test_schedules_over_limit_are_sampled_from_whole_run() -> None:
    few = Explorer(
        BY_NAME["test.effect/lookup"], SearchLimits(injections=1, schedules=40)
    ).explore()
    all_of_them = Explorer(BY_NAME["test.effect/lookup"], SearchLimits(injections=1)).explore()

    assert (few.schedules, few.complete, all_of_them.complete) == (40, False, True)
    late = {"end die", "jobs.update_item die", "jobs.update_item lost"}
    assert few.faults.keys() & late, "only the first places were looked at"
