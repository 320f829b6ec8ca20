"""Every schedule of one change for every job, some deeper ones, and that the explorer sees."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from oncely.contract import AnyContract, Standing
from oncely.domain import decide
from oncely.domain.answers import Absent, Answer, Done
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.profiles import Safety, Terms
from oncely.domain.proof import MONEY_RETENTION, owes_something, published
from oncely.services import ending
from oncely.services.publish import Publisher
from oncely.testing import Bound, Scenario, explore
from oncely.testing.choosers import Follow
from oncely.testing.explorer import Explorer, play
from oncely.testing.memory import MemoryJobStore
from oncely.testing.script import read, written
from tests.faults.safety_classes import MESSAGE, EffectMessage, contract_of
from tests.faults.scenarios import SCENARIOS

SMALL = Bound(changes=1, schedules=400, random=5)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@dataclass
class Letters:
    """A team's own fake: it counts what really happened."""

    sent: list[str] = field(default_factory=list)

    def do(self, name: str, key: str) -> Answer:
        self.sent.append(name)
        return Done(f"{name} is sent", key)


def first_violation(scenario: Scenario, bound: Bound) -> str:
    report = Explorer(scenario, bound).explore()
    assert report.violations, f"{report.schedules} schedules, and nothing was found"
    found = report.violations[0]
    return written(found.scenario, found.script)


def assert_it_replays(script: str, problem: str) -> None:
    name, changes = read(script)
    follow = Follow(changes)

    _, problems = play(BY_NAME[name], follow)

    assert follow.left == 0, "the script meets every place that it names"
    assert problem in problems
    for left_out in range(len(changes)):
        shorter = (*changes[:left_out], *changes[left_out + 1 :])
        assert not play(BY_NAME[name], Follow(shorter))[1], "a shorter script would do"


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_invariants_hold_in_every_explored_schedule(name: str) -> None:
    report = Explorer(BY_NAME[name], SMALL).explore()

    assert report.violations == [], "\n".join(map(str, report.violations))
    assert report.complete or report.schedules >= SMALL.schedules
    assert report.schedules > 60


def test_premature_lookup_is_found_and_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def at_once(job: Job, terms: Terms) -> object:
        return job.created_at

    monkeypatch.setattr(decide, "ask_not_before", at_once)

    script = first_violation(BY_NAME["test.effect/lookup"], Bound(changes=1))

    assert script == "test.effect/lookup: w1:outside.do!late"
    assert_it_replays(script, "the effect of test.effect:seven happened 2 times")


def test_random_violation_is_shrunk_to_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "ask_not_before", lambda job, terms: job.created_at)
    bound = Bound(changes=0, random=400, violations=1)

    script = first_violation(BY_NAME["test.effect/lookup"], bound)

    assert len(read(script)[1]) == 1


def test_explore_accepts_custom_contract() -> None:
    report = explore(
        contract_of(Safety.AT_MOST_ONCE),
        message=MESSAGE,
        provider=Letters,
        named="outside",
        effects=lambda letters: len(letters.sent),
        bound=Bound(changes=1),
    )

    assert report.ends.keys() == {"test.effect finished", "test.effect needs_review"}


def test_contract_example_is_sent_when_message_is_omitted() -> None:
    class WithExample(contract_of(Safety.AT_MOST_ONCE)):  # type: ignore[misc]  # made on the spot
        example = EffectMessage(job="test.effect", v=1, name="eight")

    with pytest.raises(AssertionError, match=r"test\.effect:eight is finished") as told:
        explore(
            WithExample,
            provider=Letters,
            named="outside",
            effects=lambda letters: 0,  # as if nothing ever happened
            bound=Bound(changes=0),
        )

    assert "w1:outside.do →" in str(told.value), "the steps are told as well"


class BrokenLetters(Letters):
    """A fake, or a contract, with a bug: no letter ever leaves."""

    def do(self, *_: object, **__: object) -> Answer:
        raise AttributeError("no such thing")


def test_job_that_never_ends_fails_exploration() -> None:
    with pytest.raises(AssertionError, match="neither finishes nor fails") as told:
        explore(
            contract_of(Safety.AT_MOST_ONCE),
            message=MESSAGE,
            provider=BrokenLetters,
            named="outside",
            effects=lambda letters: len(letters.sent),
            bound=Bound(changes=0),
        )

    assert "no such thing" in str(told.value), "why is told as well"


@pytest.mark.parametrize("wrong", [{"asks": {"fnd"}}, {"acts": {"doo"}}])
def test_unknown_provider_call_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Letters has no (fnd|doo)"):
        explore(
            contract_of(Safety.AT_MOST_ONCE),
            message=MESSAGE,
            provider=Letters,
            named="outside",
            effects=lambda letters: len(letters.sent),
            **wrong,
        )


class RaisingContract(contract_of(Safety.AT_MOST_ONCE)):  # type: ignore[misc]  # made on the spot
    """A check with a bug."""

    def check(self, message: EffectMessage) -> Standing[str]:
        raise KeyError(message.name)


def test_repeated_problem_is_reported_once() -> None:
    with pytest.raises(AssertionError) as told:
        explore(
            RaisingContract,
            message=MESSAGE,
            provider=Letters,
            named="outside",
            effects=lambda letters: len(letters.sent),
            bound=Bound(changes=0),
        )

    assert str(told.value).count("a worker raised KeyError") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(contract_of(Safety.NATURAL), id="called natural, and it is not"),
        pytest.param(
            contract_of(Safety.KEYED, window=timedelta(days=1)), id="called keyed, and it is not"
        ),
        pytest.param(
            contract_of(Safety.LOOKUP, lag=timedelta(0)), id="called consistent, and it lags"
        ),
    ],
)
def test_contract_that_overstates_its_provider_is_found(
    wrong: type[AnyContract],
) -> None:
    with pytest.raises(AssertionError, match=r"REPLAY='test\.effect:.*\n.*happened 2 times"):
        explore(
            wrong,
            message=MESSAGE,
            provider=LaggingLetters,
            named="outside",
            asks={"find"},
            effects=lambda letters: len(letters.sent),
        )


@dataclass
class LaggingLetters(Letters):
    """Shows nothing of what it has just done."""

    questions: int = 0

    def find(self, name: str) -> Answer:
        self.questions += 1
        return Absent(f"there is no {name}")


def test_merging_equal_states_loses_no_ending() -> None:
    """Without merging, the same violation is found, and many more schedules are needed."""
    scenario = BY_NAME["test.effect/lookup-lagging"]
    merging, plain = (Explorer(scenario, Bound(changes=1)) for _ in range(2))
    plain.merges = False

    merged, whole = merging.explore(), plain.explore()

    assert merged.merged > 0
    assert whole.merged == 0
    assert merged.schedules == whole.schedules
    assert merged.ends.keys() == whole.ends.keys()


def test_script_round_trips() -> None:
    text = "payment.charge/keys: w1:store.claim!lost w2:clock#3>sweep r1:end!die"

    assert written(*read(text)) == text
    with pytest.raises(ValueError, match="is not written like"):
        read("payment.charge/keys: w1.claim")


def test_store_that_ignores_owner_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compare_and_swap = MemoryJobStore.swap

    def swap(self: MemoryJobStore, before: Job, after: Job, **local: Any) -> object:  # noqa: ANN401  # as it came
        return compare_and_swap(self, self.jobs[before.job_key], after, **local)

    monkeypatch.setattr(MemoryJobStore, "swap", swap)

    script = first_violation(BY_NAME["sync.contact"], Bound(changes=1))

    assert "sync.contact: w1:" in script


def test_reference_saved_by_lost_owner_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Job, "still_stands_in", lambda self, row: row.status is self.status)

    script = first_violation(BY_NAME["payment.charge/zombie"], Bound(changes=1))

    assert_it_replays(script, "the effect of payment.charge:order_18452 happened 2 times")


def test_key_that_never_expires_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "_safe_to_send_again", lambda job, terms, *, scope, now: True)

    script = first_violation(BY_NAME["test.effect/keyed-brief-window"], Bound(changes=1))

    assert_it_replays(script, "the effect of test.effect:seven happened 2 times")


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
    monkeypatch.setattr(ending, "_owes", lambda _contract, _job: False)

    script = first_violation(BY_NAME[name], Bound(changes=1))

    assert_it_replays(script, f"payment.charge:order_18452 may expire, and {owed} was not sent")


def test_publisher_that_clears_before_it_sends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def clears_first(publisher: Publisher, key: JobKey) -> bool:
        job = publisher.store.get(key)
        if job is None or not owes_something(job):
            return False
        now = publisher.clock.now()
        publisher.store.swap(job, published(job, retention=MONEY_RETENTION, now=now))
        return True

    monkeypatch.setattr(Publisher, "publish", clears_first)

    script = first_violation(BY_NAME["payment.charge/with-receipt"], Bound(changes=1))

    told = "payment.charge:order_18452 may expire, and its follow-up receipt.send was not sent"
    assert_it_replays(script, told)


def test_schedules_over_limit_are_sampled_from_whole_run() -> None:
    few = Explorer(BY_NAME["test.effect/lookup"], Bound(changes=1, schedules=40)).explore()
    all_of_them = Explorer(BY_NAME["test.effect/lookup"], Bound(changes=1)).explore()

    assert (few.schedules, few.complete, all_of_them.complete) == (40, False, True)
    late = {"end die", "store.swap die", "store.swap lost"}
    assert few.faults.keys() & late, "only the first places were looked at"
