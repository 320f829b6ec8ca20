"""A resubmission runs only after the first job failed and can never be paid."""

from datetime import timedelta

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event
from oncely.core.outcomes import NeedsReview
from oncely.core.repairs import Repair
from oncely.jobs.payment_charge import PaymentCharge
from oncely.operate.repair_request import Repaired
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_conflict, is_finished
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import repair_job, world_with_declined_job

FIRST = "payment.charge:order_18452"
SECOND = "payment.charge:order_18452:2"


def test_resubmission_after_decline_charges_once() -> None:
    world = world_with_declined_job()

    assert is_finished(world.run(charge_message(attempt=2)))
    assert world.payments.intents["pi_1"].status == "canceled"
    assert world.payments.charges == ["pi_2"]
    assert world.order()["status"] == "paid"


def test_resubmission_conflicts_without_failed_first_job(world: InMemoryStack) -> None:
    assert is_conflict(world.run(charge_message(attempt=2)))
    assert world.store.get(SECOND) is None
    assert world.payments.calls == []


def test_replayed_resubmission_conflicts_after_contradiction() -> None:
    world = world_with_declined_job()
    world.payments.declines = True
    world.run(charge_message(attempt=2))
    world.publisher().publish(JobKey(SECOND))
    world.store.expire(SECOND)
    first = world.job(FIRST)
    why = {"actor": "worker", "reason": "paid after all"}
    world.store.swap(first, first.apply(Event.CONTRADICT, now=world.clock.now(), **why))

    outcome = world.run(charge_message(attempt=2))

    assert is_conflict(outcome)
    assert "order_18452 must have failed" in outcome.reason


def test_resubmission_conflicts_while_first_job_is_unknown(world: InMemoryStack) -> None:
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    assert is_conflict(world.run(charge_message(attempt=2)))
    assert world.payments.charges == ["pi_1"]


def test_resubmission_returns_charge_of_paid_first_job(world: InMemoryStack) -> None:
    world.run(charge_message())

    outcome = world.run(charge_message(attempt=2))

    assert is_finished(outcome)
    assert outcome.result["charge_id"] == "ch_1"
    assert world.payments.charges == ["pi_1"]


def resubmit_job(world: InMemoryStack) -> str:
    assert isinstance(repair_job(world, Repair.RESUBMIT), Repaired)
    return world.outbox.sent.pop()


def test_resubmission_alerts_once_when_first_job_is_missing() -> None:
    world = world_with_declined_job()
    message = resubmit_job(world)
    world.store.expire(JobKey(FIRST))

    outcome = world.run(message)

    assert isinstance(outcome, NeedsReview)
    assert "order_18452 must have failed, it is not there" in outcome.reason
    for _ in range(8):
        world.clock.advance(minutes=15)
        world.reconcile(SECOND)
    assert world.outbox.sent == []
    assert len(world.alerts.sent) == 1
    assert world.payments.charges == []


def test_failed_row_outlives_its_resubmission() -> None:
    world = world_with_declined_job()
    expiry = world.job(FIRST).expires_at
    assert expiry is not None
    world.clock.time = expiry - timedelta(minutes=1)

    resubmit_job(world)

    later = world.job(FIRST).expires_at
    assert later is not None
    assert later >= world.clock.now() + PaymentCharge.policy.limits.max_age


def test_expiry_is_not_extended_when_late_enough() -> None:
    world = world_with_declined_job()
    expiry = world.job(FIRST).expires_at
    resubmit_job(world)
    assert world.job(FIRST).expires_at == expiry
