"""The provider may or may not have charged: the job says unknown, and asking ends it."""

import pytest

from oncely.domain.lifecycle import Status
from oncely.services.outcomes import Finished, NothingSent, Parked, Unknown
from tests.support.mortal import Meanwhile
from tests.support.payments import Fault
from tests.support.world import World, charge

KEY = "payment.charge:order_18452"


def test_charge_without_response_is_unknown_until_lookup() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)

    outcome = world.run(charge())
    job = world.until_quiet(KEY)

    assert isinstance(outcome, Unknown)
    assert job.status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]
    assert world.order()["status"] == "paid"


def test_absent_charge_is_retried_under_next_key_number() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_BEFORE)

    world.run(charge())
    job = world.until_quiet(KEY)

    assert job.status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]
    assert [key for step, key in world.payments.calls if step == "execute"] == [
        f"{KEY}:confirm:1",
        f"{KEY}:confirm:2",
    ]


def test_saved_payment_is_reused() -> None:
    world = World()
    world.add_order()
    world.payments.honours_keys = False
    world.payments.fails("execute", Fault.TIMEOUT_BEFORE)

    world.run(charge())
    world.until_quiet(KEY)

    assert [step for step, _ in world.payments.calls if step == "prepare"] == ["prepare"]
    assert world.payments.charges == ["pi_1"]


def test_new_intent_is_created_without_saved_reference() -> None:
    world = World()
    world.add_order()
    world.payments.fails("prepare", Fault.TIMEOUT_AFTER)

    world.run(charge())
    job = world.until_quiet(KEY)

    assert job.status is Status.FINISHED
    assert world.payments.charges == ["pi_2"]


def test_pending_payment_is_unknown_until_it_succeeds() -> None:
    world = World()
    world.add_order()
    world.payments.processes = True
    outcome = world.run(charge())
    world.clock.move(minutes=1)
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.UNKNOWN

    world.payments.settle("pi_1", status="succeeded")
    job = world.until_quiet(KEY)

    assert isinstance(outcome, Unknown)
    assert job.status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]


@pytest.mark.parametrize("step", ["prepare", "execute"])
def test_unsent_effect_returns_attempt_and_message(step: str) -> None:
    world = World()
    world.add_order()
    world.payments.fails(step, Fault.REFUSED_CONNECTION)

    outcome = world.run(charge())

    assert isinstance(outcome, NothingSent)
    assert outcome.until > world.clock.now()
    assert world.job(KEY).status is Status.READY
    assert world.job(KEY).attempts == 0
    assert isinstance(world.run(charge()), Finished)
    assert world.payments.charges == ["pi_1"]


def test_rejected_api_key_raises_alarm_without_alert() -> None:
    world = World()
    world.add_order()
    world.payments.fails("prepare", Fault.UNAUTHORIZED)

    outcome = world.run(charge())

    assert isinstance(outcome, NothingSent)
    assert outcome.alarm
    assert world.alerts.told == []


def test_outage_escalates_nothing_before_age_limit() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    world.payments.fails("look_up", *[Fault.TIMEOUT_BEFORE] * 40)

    for _ in range(40):
        world.clock.time = world.job(KEY).due_at or world.clock.time
        world.reconcile(KEY)
    down = world.job(KEY)
    job = world.until_quiet(KEY)

    assert down.status is Status.UNKNOWN
    assert down.attempts == 1
    assert job.status is Status.FINISHED


def test_consecutive_timeouts_need_review() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", *[Fault.TIMEOUT_BEFORE] * 5)
    started = world.clock.now()

    world.run(charge())
    job = world.until_quiet(KEY)

    assert job.status is Status.NEEDS_REVIEW
    assert world.payments.charges == []
    assert (world.clock.now() - started).total_seconds() >= 3600
    assert "5 timeouts in a row" in world.alerts.told[-1].text


def test_charge_needs_review_when_order_is_cancelled() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    world.add_order(amount=1250, status="cancelled")

    world.reconcile(KEY)
    job = world.job(KEY)

    assert job.status is Status.NEEDS_REVIEW
    assert (job.result or {})["charge_id"] == "ch_pi_1"
    assert world.order()["status"] == "cancelled"
    assert isinstance(world.run(charge()), Parked)


def test_refunded_charge_needs_review() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    world.payments.settle("pi_1", status="refunded")

    settlement = world.reconcile(KEY)

    assert settlement is not None
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert world.alerts.told


def test_job_is_released_when_time_is_short_before_call() -> None:
    world = World()
    world.add_order()
    slow = Meanwhile(world.payments, "prepare", lambda: world.clock.move(seconds=50))

    outcome = world.run(charge(), runner=world.runner(provider=slow))

    assert isinstance(outcome, NothingSent)
    assert world.payments.charges == []


def test_ready_job_needs_review_when_amount_changed() -> None:
    world = World()
    world.add_order()
    world.payments.fails("prepare", Fault.REFUSED_CONNECTION)
    world.run(charge())
    world.add_order(amount=9900)

    job = world.until_quiet(KEY)

    assert job.status is Status.NEEDS_REVIEW
    assert "values changed" in str(job.last_error)
    assert world.payments.charges == []
    assert len(world.alerts.told) == 1
