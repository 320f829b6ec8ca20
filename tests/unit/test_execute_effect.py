"""Executing an effect: an exception is an outcome, and nothing is sent without ownership."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from oncely.core.attempt import DecisionWriter, EffectExecutor, OwnershipYielded
from oncely.core.effect_outcomes import (
    Ambiguous,
    BusinessWrite,
    EffectOutcome,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    NotSent,
    Prepared,
    Reserved,
    Succeeded,
    after_send,
)
from oncely.core.errors import GateClosedError, NotConfiguredError, UnavailableError
from oncely.core.job_type import Call
from oncely.core.profiles import COMMIT_BUDGET, RetrySafety
from oncely.gates.gate import Gate
from oncely.gates.table import GateTable
from oncely.operate.own_tables import GATES
from tests.support.crash_points import InterruptingPort
from tests.support.fakes import FakeClock
from tests.support.stored_rows import InspectableStore
from tests.unit.errand_job import FACTS, Errand, make_errand, raising_step
from tests.unit.samples import NOW, PROFILE, TICK, make_job

NO_KEY = NotConfiguredError("there is no API key")
REJECTED = NotSent(str(NO_KEY), credentials_rejected=True)
OUTAGE = UnavailableError("the secret is not available now")
CLOSED = GateClosedError("the rate of the provider is used up")
ENDED_IN = "the call ended in"
ENOUGH_TIME = PROFILE.request_timeout + COMMIT_BUDGET
TIME_TO_ASK = PROFILE.max_run_time + COMMIT_BUDGET


def executor(
    contract: Errand, *, left: timedelta = ENOUGH_TIME, owned: bool = True
) -> EffectExecutor:
    job = make_job()
    row = job if owned else replace(job, owner="another")
    store = InspectableStore()
    store.jobs[job.job_key] = row
    writer = DecisionWriter(store=store, clock=FakeClock(NOW), actor="worker")
    return EffectExecutor(
        job=job,
        facts=FACTS,
        contract=contract,
        writer=writer,
        deadline=NOW + left,
        gate=Gate(table=GateTable(store.client, GATES), clock=writer.clock),
    )


@pytest.mark.parametrize(
    ("contract", "outcome"),
    [
        (make_errand(), Succeeded("run")),
        (make_errand(prepares=raising_step(NO_KEY)), REJECTED),
        (make_errand(prepares=raising_step(OUTAGE)), NotSent(str(OUTAGE))),
        (make_errand(RetrySafety.NATURAL, acts=raising_step(OUTAGE)), Ambiguous(str(OUTAGE))),
        (make_errand(acts=raising_step(NO_KEY)), Ambiguous(str(NO_KEY))),
        (make_errand(RetrySafety.NATURAL, acts=raising_step(NO_KEY)), REJECTED),
        (make_errand(prepares=raising_step(CLOSED)), NotSent(str(CLOSED))),
        (make_errand(RetrySafety.NATURAL, acts=raising_step(CLOSED)), NotSent(str(CLOSED))),
        (make_errand(acts=raising_step(CLOSED)), Ambiguous(str(CLOSED))),
        (make_errand(acts=raising_step(OSError("cut"))), Ambiguous(f"{ENDED_IN} OSError: cut")),
        (make_errand(prepares=lambda: NotSent("429")), NotSent("429")),
    ],
)
def test_provider_exception_becomes_its_outcome(contract: Errand, outcome: EffectOutcome) -> None:
    act = executor(contract)
    assert act.execute() == outcome
    assert act.job == make_job()


@pytest.mark.parametrize(
    "state", [NotFound("none yet"), LookupFailed("no answer"), LookupUnsupported()]
)
def test_request_whose_effect_is_not_seen_is_ambiguous(state: LookupOutcome) -> None:
    assert after_send(state) == Ambiguous(state.reason)


@pytest.mark.parametrize(("left", "sent"), [(ENOUGH_TIME, True), (ENOUGH_TIME - TICK, False)])
def test_provider_is_called_only_with_time_to_record_it(left: timedelta, *, sent: bool) -> None:
    assert isinstance(executor(make_errand(), left=left).execute(), Succeeded if sent else NotSent)


@pytest.mark.parametrize(("left", "asked"), [(TIME_TO_ASK, True), (TIME_TO_ASK - TICK, False)])
def test_provider_is_asked_first_only_with_time_to_act_on_it(
    left: timedelta, *, asked: bool
) -> None:
    absent = NotFound("nothing was done")
    never = raising_step(AssertionError("it was asked"))
    contract = make_errand(asks=(lambda _: absent) if asked else never)
    too_late = NotSent("not enough time was left to look it up", retry_after=timedelta())
    assert executor(contract, left=left).lookup_first() == (absent if asked else too_late)


def test_prepared_reference_is_saved_before_act() -> None:
    seen: list[str | None] = []

    def acts(call: Call[str]) -> EffectOutcome:
        seen.append(call.row.provider_ref)
        return Succeeded("run")

    act = executor(make_errand(prepares=lambda: Prepared("errand_1"), acts=acts))

    assert act.execute() == Succeeded("run")
    assert seen == [act.job.provider_ref] == ["errand_1"]


def test_worker_does_not_act_when_row_is_lost_after_prepare() -> None:
    never = raising_step(AssertionError())
    contract = make_errand(prepares=lambda: Prepared("errand_1"), acts=never)
    assert isinstance(executor(contract, owned=False).execute(), OwnershipYielded)


RESERVATION = BusinessWrite(
    table="orders", key={"order_id": "7"}, set={"held": True}, may_create=True
)


def test_reservation_is_written_although_others_add_to_the_row() -> None:
    act = executor(make_errand(prepares=lambda: Reserved("reserved", (RESERVATION,))))
    rows = act.writer.store
    assert isinstance(rows, InspectableStore)

    def note() -> None:
        job = rows.jobs[act.job.job_key]
        if job.version < 10:
            rows.jobs[act.job.job_key] = replace(job, version=job.version + 1)

    note()
    act.writer = replace(act.writer, store=cast("Any", InterruptingPort(rows, "swap", note)))

    assert act.execute() == Succeeded("run")
    assert act.job.version == 11
    assert rows.business_rows.get("orders", {"order_id": "7"}) == {"order_id": "7", "held": True}


def test_nothing_is_sent_when_the_reservation_cannot_be_written() -> None:
    clock = FakeClock(NOW)
    never = raising_step(AssertionError())
    act = executor(
        make_errand(prepares=lambda: Reserved("reserved", (RESERVATION,)), acts=never),
        left=2 * ENOUGH_TIME,
    )
    rows = act.writer.store
    assert isinstance(rows, InspectableStore)

    def note() -> None:
        clock.advance(seconds=1)
        job = rows.jobs[act.job.job_key]
        rows.jobs[act.job.job_key] = replace(job, version=job.version + 1)

    note()
    act.writer = replace(
        act.writer, store=cast("Any", InterruptingPort(rows, "swap", note)), clock=clock
    )
    outcome = act.execute()
    assert isinstance(outcome, NotSent)
    assert "kept changing" in outcome.reason
    assert clock.now() == NOW + timedelta(seconds=1) + COMMIT_BUDGET


def test_progress_is_saved_before_act_continues() -> None:
    def acts(call: Call[str]) -> EffectOutcome:
        call.save_progress({"page": 1})
        call.save_progress({"page": 2})
        return Succeeded("run")

    act = executor(make_errand(acts=acts))

    assert act.execute() == Succeeded("run")
    assert (act.job.progress, act.job.version) == ({"page": 2}, make_job().version + 2)


def test_act_stops_when_progress_cannot_be_saved() -> None:
    def acts(call: Call[str]) -> EffectOutcome:
        call.save_progress({"page": 1})
        pytest.fail("it went on without the row")

    act = executor(make_errand(acts=acts), owned=False)
    outcome = act.execute()

    assert isinstance(outcome, Ambiguous)
    assert "has another owner" in outcome.reason
    assert act.job == make_job()
