"""A second business attempt: only after the first failed and can never be paid."""

from datetime import timedelta

from oncely.contracts.payment_charge import PaymentCharge
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event
from oncely.domain.repairs import Repair
from oncely.services.outcomes import Conflict, Failed, Finished, NeedsReview
from oncely.services.repair_order import Repaired, RepairOrder
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


def test_after_a_decline_the_first_intent_is_closed_and_a_second_attempt_charges_once() -> None:
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


def test_replayed_second_attempt_conflicts_when_first_is_no_longer_failed() -> None:
    world = declined_once()
    world.payments.declines = True
    world.run(charge(attempt=2))
    world.publisher().publish(JobKey(SECOND))
    world.store.expire(SECOND)
    first = world.job(FIRST)
    contradicted = first.apply(
        Event.CONTRADICT, now=world.clock.now(), actor="worker", reason="paid after all"
    )
    world.store.swap(first, contradicted)

    outcome = world.run(charge(attempt=2))

    assert isinstance(outcome, Conflict)
    assert "order_18452 must have failed" in outcome.reason


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


def test_the_reference_of_a_failure_is_not_taken_for_a_payment() -> None:
    world = World()
    assert isinstance(world.run(charge()), NeedsReview)
    order = RepairOrder(
        key=JobKey(FIRST),
        repair=Repair.FAIL,
        version=world.job(FIRST).version,
        reason="x",
        actor="ada",
        reference="re_1",
    )
    assert isinstance(world.repairer().repair(order), Repaired)
    assert (world.job(FIRST).result or {})["reference"] == "re_1"
    world.add_order()

    assert isinstance(world.run(charge(attempt=2)), Finished)
    assert world.payments.charges == ["pi_1"]


def tried_again(world: World) -> str:
    """A person asks for a second attempt; gives its message."""
    order = RepairOrder(
        key=JobKey(FIRST),
        repair=Repair.AGAIN,
        version=world.job(FIRST).version,
        reason="x",
        actor="ada",
    )
    assert isinstance(world.repairer().repair(order), Repaired)
    return world.outbox.sent.pop()


def test_a_second_attempt_whose_first_is_gone_is_told_of_once_and_not_sent_for_a_day() -> None:
    world = declined_once()
    message = tried_again(world)
    world.store.expire(JobKey(FIRST))

    outcome = world.run(message)

    assert isinstance(outcome, NeedsReview)
    assert "order_18452 must have failed, it is not there" in outcome.reason
    for _ in range(8):
        world.clock.move(minutes=15)
        world.reconcile(SECOND)
    assert world.outbox.sent == []
    assert len(world.alerts.told) == 1
    assert world.payments.charges == []


def test_the_row_that_a_second_attempt_hangs_on_does_not_expire_before_it() -> None:
    world = declined_once()
    expiry = world.job(FIRST).expires_at
    assert expiry is not None
    world.clock.time = expiry - timedelta(minutes=1)

    tried_again(world)

    later = world.job(FIRST).expires_at
    assert later is not None
    assert later >= world.clock.now() + PaymentCharge.terms.stop.age


def test_a_row_that_is_kept_long_enough_is_not_kept_longer() -> None:
    world = declined_once()
    expiry = world.job(FIRST).expires_at

    tried_again(world)

    assert world.job(FIRST).expires_at == expiry
