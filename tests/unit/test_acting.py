"""Acting, once: what a call raises is an answer, and nothing is sent without a right to."""

from datetime import timedelta

import pytest

from oncely.contract import COMMIT_BUDGET, Call
from oncely.domain.answers import Answer, Done, NotSent, Prepared, Unclear
from oncely.domain.errors import NotConfiguredError
from oncely.domain.jobs import Job
from oncely.domain.moves import Decision
from oncely.domain.profiles import Safety
from oncely.services.acting import Act, Acted, GaveWay
from oncely.services.deadline import Deadline
from tests.support.fakes import FakeClock
from tests.unit.errand_contract import FACTS, Errand, errand, raising
from tests.unit.samples import NOW, PROFILE, TICK, a_job

NO_KEY = NotConfiguredError("there is no API key")
ENOUGH = PROFILE.request_timeout + COMMIT_BUDGET


def keep(job: Job, decision: Decision) -> Job:
    return decision.on(job, now=NOW, actor="worker")


def overtaken(job: Job, decision: Decision) -> None:
    del job, decision


def perform(contract: Errand, *, left: timedelta = ENOUGH, owned: bool = True) -> Acted | GaveWay:
    deadline = Deadline(NOW + left, FakeClock(NOW))
    act = Act(contract=contract, deadline=deadline, keep=keep if owned else overtaken)
    return act.perform(a_job(), FACTS)


@pytest.mark.parametrize(
    ("contract", "answer"),
    [
        (errand(), Done("run")),
        (errand(prepares=raising(NO_KEY)), NotSent(str(NO_KEY), alarm=True)),
        (errand(acts=raising(NO_KEY)), Unclear(str(NO_KEY))),
        (errand(Safety.NATURAL, acts=raising(NO_KEY)), NotSent(str(NO_KEY), alarm=True)),
        (errand(acts=raising(OSError("cut"))), Unclear("the call ended in OSError: cut")),
        (errand(prepares=lambda: NotSent("429")), NotSent("429")),
    ],
)
def test_provider_exception_becomes_effect_outcome(contract: Errand, answer: Answer) -> None:
    assert perform(contract) == Acted(a_job(), answer)


@pytest.mark.parametrize(("left", "sent"), [(ENOUGH, True), (ENOUGH - TICK, False)])
def test_provider_is_called_only_with_time_to_record_outcome(
    left: timedelta, *, sent: bool
) -> None:
    acted = perform(errand(), left=left)

    assert isinstance(acted, Acted)
    assert isinstance(acted.answer, Done if sent else NotSent)


def test_prepared_reference_is_saved_before_act() -> None:
    seen: list[str | None] = []

    def acts(call: Call[str]) -> Answer:
        seen.append(call.job.provider_ref)
        return Done("run")

    acted = perform(errand(prepares=lambda: Prepared("errand_1"), acts=acts))

    assert isinstance(acted, Acted)
    assert seen == [acted.job.provider_ref] == ["errand_1"]


def test_worker_does_not_act_when_row_is_lost_after_prepare() -> None:
    contract = errand(prepares=lambda: Prepared("errand_1"), acts=raising(AssertionError()))

    assert isinstance(perform(contract, owned=False), GaveWay)


def test_progress_is_saved_before_act_continues() -> None:
    def acts(call: Call[str]) -> Answer:
        call.save({"page": 1})
        call.save({"page": 2})
        return Done("run")

    acted = perform(errand(acts=acts))

    assert isinstance(acted, Acted)
    assert (acted.job.progress, acted.job.version) == ({"page": 2}, a_job().version + 2)


def test_act_stops_when_progress_cannot_be_saved() -> None:
    def acts(call: Call[str]) -> Answer:
        call.save({"page": 1})
        pytest.fail("it went on without the row")

    acted = perform(errand(acts=acts), owned=False)

    assert isinstance(acted, Acted)
    assert isinstance(acted.answer, Unclear)
    assert "has another owner" in acted.answer.reason
    assert acted.job == a_job()
