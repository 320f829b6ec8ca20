"""Acting, once: what a call raises is an answer, and nothing is sent without a right to."""

from datetime import timedelta

import pytest

from oncely.contract import COMMIT_BUDGET, EffectCall
from oncely.domain.decisions import Decision
from oncely.domain.effect_outcomes import Ambiguous, EffectOutcome, NotSent, Prepared, Succeeded
from oncely.domain.errors import NotConfiguredError
from oncely.domain.jobs import Job
from oncely.domain.profiles import RetrySafety
from oncely.run.deadline import Deadline
from oncely.run.execute_effect import EffectExecutor, EffectResult, OwnershipYielded
from tests.support.fakes import FakeClock
from tests.unit.errand_contract import FACTS, Errand, make_errand, raising_step
from tests.unit.samples import NOW, PROFILE, TICK, make_job

NO_KEY = NotConfiguredError("there is no API key")
ENOUGH_TIME = PROFILE.request_timeout + COMMIT_BUDGET


def save_checkpoint(job: Job, decision: Decision) -> Job:
    return decision.apply_to(job, now=NOW, actor="worker")


def fail_checkpoint(job: Job, decision: Decision) -> None:
    del job, decision


def execute_effect(
    contract: Errand, *, left: timedelta = ENOUGH_TIME, owned: bool = True
) -> EffectResult | OwnershipYielded:
    deadline = Deadline(NOW + left, FakeClock(NOW))
    act = EffectExecutor(
        contract=contract,
        deadline=deadline,
        save_checkpoint=save_checkpoint if owned else fail_checkpoint,
    )
    return act.execute(make_job(), FACTS)


@pytest.mark.parametrize(
    ("contract", "answer"),
    [
        (make_errand(), Succeeded("run")),
        (
            make_errand(prepares=raising_step(NO_KEY)),
            NotSent(str(NO_KEY), credentials_rejected=True),
        ),
        (make_errand(acts=raising_step(NO_KEY)), Ambiguous(str(NO_KEY))),
        (
            make_errand(RetrySafety.NATURAL, acts=raising_step(NO_KEY)),
            NotSent(str(NO_KEY), credentials_rejected=True),
        ),
        (
            make_errand(acts=raising_step(OSError("cut"))),
            Ambiguous("the call ended in OSError: cut"),
        ),
        (make_errand(prepares=lambda: NotSent("429")), NotSent("429")),
    ],
)
def test_provider_exception_becomes_effect_outcome(contract: Errand, answer: EffectOutcome) -> None:
    assert execute_effect(contract) == EffectResult(make_job(), answer)


@pytest.mark.parametrize(("left", "sent"), [(ENOUGH_TIME, True), (ENOUGH_TIME - TICK, False)])
def test_provider_is_called_only_with_time_to_record_outcome(
    left: timedelta, *, sent: bool
) -> None:
    acted = execute_effect(make_errand(), left=left)

    assert isinstance(acted, EffectResult)
    assert isinstance(acted.outcome, Succeeded if sent else NotSent)


def test_prepared_reference_is_saved_before_act() -> None:
    seen: list[str | None] = []

    def acts(call: EffectCall[str]) -> EffectOutcome:
        seen.append(call.job.provider_ref)
        return Succeeded("run")

    acted = execute_effect(make_errand(prepares=lambda: Prepared("errand_1"), acts=acts))

    assert isinstance(acted, EffectResult)
    assert seen == [acted.job.provider_ref] == ["errand_1"]


def test_worker_does_not_act_when_row_is_lost_after_prepare() -> None:
    contract = make_errand(
        prepares=lambda: Prepared("errand_1"), acts=raising_step(AssertionError())
    )

    assert isinstance(execute_effect(contract, owned=False), OwnershipYielded)


def test_progress_is_saved_before_act_continues() -> None:
    def acts(call: EffectCall[str]) -> EffectOutcome:
        call.save_progress({"page": 1})
        call.save_progress({"page": 2})
        return Succeeded("run")

    acted = execute_effect(make_errand(acts=acts))

    assert isinstance(acted, EffectResult)
    assert (acted.job.progress, acted.job.version) == ({"page": 2}, make_job().version + 2)


def test_act_stops_when_progress_cannot_be_saved() -> None:
    def acts(call: EffectCall[str]) -> EffectOutcome:
        call.save_progress({"page": 1})
        pytest.fail("it went on without the row")

    acted = execute_effect(make_errand(acts=acts), owned=False)

    assert isinstance(acted, EffectResult)
    assert isinstance(acted.outcome, Ambiguous)
    assert "has another owner" in acted.outcome.reason
    assert acted.job == make_job()
