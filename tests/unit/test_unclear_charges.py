"""The provider may or may not have charged: the job says unknown, and asking ends it."""

import pytest

from oncely.domain.lifecycle import Status
from oncely.services.outcomes import Finished, NothingSent, Parked, Unknown
from tests.support.mortal import Meanwhile
from tests.support.payments import Fault
from tests.support.world import World, charge

KEY = "payment.charge:order_18452"


def test_charged_but_no_answer_is_unknown_and_asking_finds_the_one_charge() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)

    outcome = world.run(charge())
    job = world.until_quiet(KEY)

    assert isinstance(outcome, Unknown)
    assert job.status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]
    assert world.order()["status"] == "paid"


def test_not_charged_and_no_answer_is_tried_again_under_the_next_key_number() -> None:
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


def test_a_saved_payment_is_gone_on_with_and_no_other_is_made() -> None:
    world = World()
    world.add_order()
    world.payments.honours_keys = False
    world.payments.fails("execute", Fault.TIMEOUT_BEFORE)

    world.run(charge())
    world.until_quiet(KEY)

    assert [step for step, _ in world.payments.calls if step == "prepare"] == ["prepare"]
    assert world.payments.charges == ["pi_1"]


def test_without_a_saved_reference_nothing_was_charged_and_a_new_intent_is_made() -> None:
    world = World()
    world.add_order()
    world.payments.fails("prepare", Fault.TIMEOUT_AFTER)

    world.run(charge())
    job = world.until_quiet(KEY)

    assert job.status is Status.FINISHED
    assert world.payments.charges == ["pi_2"]


def test_a_payment_in_processing_is_unknown_until_the_provider_decides() -> None:
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
def test_nothing_sent_gives_the_attempt_back_and_hands_the_message_back(step: str) -> None:
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


def test_a_refused_key_raises_one_alarm_and_no_alert_for_every_job() -> None:
    world = World()
    world.add_order()
    world.payments.fails("prepare", Fault.UNAUTHORIZED)

    outcome = world.run(charge())

    assert isinstance(outcome, NothingSent)
    assert outcome.alarm
    assert world.alerts.told == []


def test_an_outage_of_hours_escalates_nothing_before_the_age_limit() -> None:
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


def test_five_timeouts_in_a_row_ask_a_person() -> None:
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


def test_charged_but_the_order_refuses_is_needs_review_with_the_charge_at_once() -> None:
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


def test_found_refunded_or_with_another_amount_is_needs_review() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    world.payments.settle("pi_1", status="refunded")

    settlement = world.reconcile(KEY)

    assert settlement is not None
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert world.alerts.told


def test_out_of_time_before_the_call_releases_the_job_and_sends_nothing() -> None:
    world = World()
    world.add_order()
    slow = Meanwhile(world.payments, "prepare", lambda: world.clock.move(seconds=50))

    outcome = world.run(charge(), runner=world.runner(provider=slow))

    assert isinstance(outcome, NothingSent)
    assert world.payments.charges == []


def test_a_ready_row_that_nobody_can_work_ends_with_a_person_and_not_in_a_loop() -> None:
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
