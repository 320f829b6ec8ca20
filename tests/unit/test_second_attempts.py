"""A second business attempt: only after the first failed and can never be paid."""

from oncely.domain.lifecycle import Status
from oncely.services.outcomes import Conflict, Failed, Finished, NeedsReview, NothingSent
from tests.support.payments import Fault
from tests.support.world import World, charge

FIRST = "payment.charge:order_18452"
SECOND = "payment.charge:order_18452:2"


def declined_once() -> World:
    world = World()
    world.add_order()
    world.payments.declines = True
    assert isinstance(world.run(charge()), Failed)
    world.payments.declines = False
    return world


def test_after_a_decline_a_second_attempt_charges_once_and_cancels_the_first_intent() -> None:
    world = declined_once()

    outcome = world.run(charge(attempt=2))

    assert isinstance(outcome, Finished)
    assert world.payments.intents["pi_1"].status == "canceled"
    assert world.payments.charges == ["pi_2"]
    assert world.order()["status"] == "paid"


def test_a_second_attempt_without_a_failed_first_is_refused_before_any_call() -> None:
    world = World()
    world.add_order()

    outcome = world.run(charge(attempt=2))

    assert isinstance(outcome, Conflict)
    assert world.store.get(SECOND) is None
    assert world.payments.calls == []


def test_a_second_attempt_while_the_first_is_unknown_is_refused() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())

    outcome = world.run(charge(attempt=2))

    assert isinstance(outcome, Conflict)
    assert world.payments.charges == ["pi_1"]


def test_a_second_attempt_after_the_first_was_paid_answers_with_that_charge() -> None:
    world = World()
    world.add_order()
    world.run(charge())

    outcome = world.run(charge(attempt=2))

    assert isinstance(outcome, Finished)
    assert outcome.result["charge_id"] == "ch_pi_1"
    assert world.payments.charges == ["pi_1"]


def test_a_first_intent_that_was_paid_after_all_stops_the_second_attempt() -> None:
    world = declined_once()
    world.payments.settle("pi_1", status="succeeded")

    outcome = world.run(charge(attempt=2))

    assert isinstance(outcome, NeedsReview)
    assert world.payments.charges == ["pi_1"]
    assert world.alerts.told


def test_nothing_is_charged_while_the_first_intent_cannot_be_cancelled() -> None:
    world = declined_once()
    world.payments.fails("cancel", Fault.TIMEOUT_BEFORE)

    outcome = world.run(charge(attempt=2))

    assert isinstance(outcome, NothingSent)
    assert world.job(SECOND).status is Status.READY
    assert world.payments.charges == []
