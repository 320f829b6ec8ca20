"""After a restore: a job whose history may be lost asks its provider before it does anything."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.answers import CannotAsk
from oncely.domain.jobs import Job, enqueued
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.profiles import Safety
from oncely.domain.repairs import Repair
from oncely.ports import TableOpen
from oncely.services.asking import heard_about
from oncely.services.outcomes import Failed, Finished, Parked
from oncely.services.repair_order import NoAnswer, NotAllowed, Outcome, Repaired, RepairOrder
from oncely.testing.memory import MemoryGuard
from tests.support.fakes import START
from tests.support.payments import FakePayments, Fault
from tests.support.world import World, charge
from tests.unit.errand_contract import MESSAGE, errand
from tests.unit.samples import a_job

KEY = JobKey("payment.charge:order_18452")


def after_restore(payments: FakePayments) -> World:
    """The row is lost; what was done at Stripe is not."""
    world = World(payments=payments, deployment="dev")
    until = world.clock.now() + timedelta(days=18)
    world.guard = MemoryGuard(TableOpen(deployment="dev", replays_until=until))
    world.add_order()
    return world


def charged_before(**faults: Fault) -> FakePayments:
    before = World(deployment="dev")
    before.add_order()
    for step, fault in faults.items():
        before.payments.fails(step, fault)
    before.run(charge())
    payments: FakePayments = before.payments
    payments.honours_keys = False  # Stripe has forgotten them
    payments.calls.clear()
    return payments


def test_replay_of_lost_job_finds_payment_without_charging() -> None:
    world = after_restore(charged_before())

    outcome = world.run(charge())

    assert isinstance(outcome, Finished)
    assert outcome.result["charge_id"] == "ch_pi_1"
    assert world.payments.charges == ["pi_1"]
    assert world.job(KEY).provider_ref == "pi_1"
    assert world.order()["status"] == "paid"


def test_replay_continues_with_prepared_payment() -> None:
    world = after_restore(charged_before(execute=Fault.REFUSED_CONNECTION))

    outcome = world.run(charge())

    assert isinstance(outcome, Finished)
    assert [*world.payments.intents] == ["pi_1"]
    assert world.payments.charges == ["pi_1"]


def test_new_job_is_charged_when_lookup_finds_nothing() -> None:
    world = after_restore(FakePayments())

    assert isinstance(world.run(charge()), Finished)
    assert [step for step, _ in world.payments.calls] == ["find", "prepare", "execute"]


def test_job_retries_later_when_payments_cannot_be_listed() -> None:
    world = after_restore(FakePayments())
    world.payments.fails("find", Fault.TIMEOUT_BEFORE)

    world.run(charge())

    assert world.job(KEY).status is Status.READY
    assert world.payments.intents == {}
    assert world.until_quiet(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]


def test_receipt_needs_review_as_lookup_is_unsupported() -> None:
    world = after_restore(FakePayments())
    world.add_order(status="paid", charge_id="ch_1")

    world.run({"job": "receipt.send", "v": 1, "order_id": "18452"})

    assert world.job("receipt.send:order_18452").status is Status.NEEDS_REVIEW
    assert world.mail.sent == []


def test_declined_job_fails_on_replay() -> None:
    before = World(deployment="dev", payments=FakePayments(declines=True))
    before.add_order()
    assert isinstance(before.run(charge()), Failed)
    world = after_restore(before.payments)

    assert isinstance(world.run(charge()), Failed)
    assert world.payments.charges == []


def test_two_payments_of_one_job_need_review() -> None:
    payments = charged_before()
    payments.intents["pi_2"] = replace(payments.intents["pi_1"], ref="pi_2")
    payments.charges.append("pi_2")
    world = after_restore(payments)

    world.run(charge())

    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert len(payments.charges) == 2


def a_restored_row(world: World, **changes: object) -> Job:
    """As `oncely restore-proofs` writes it: unknown, due now, perhaps without its claim."""
    row = enqueued(
        KEY,
        "payment.charge",
        charge(),  # type: ignore[arg-type]  # plain JSON
        now=START,
        due_at=START,
        actor="producer",
        reason="sent",
    )
    held = {"deployment": "dev", **changes}
    row = replace(row, status=Status.UNKNOWN, **held)  # type: ignore[arg-type]  # fields by name
    world.store.jobs[KEY] = row
    return row


def test_reconciler_finds_payment_of_row_without_reference() -> None:
    world = after_restore(charged_before())
    a_restored_row(world)

    world.reconcile(KEY)

    job = world.job(KEY)
    assert (job.status, job.provider_ref) == (Status.FINISHED, "pi_1")
    assert world.order()["status"] == "paid"


def test_surviving_order_keeps_its_payment() -> None:
    world = after_restore(charged_before())
    world.add_order(status="paid", charge_id="ch_pi_1")
    a_restored_row(world)

    world.reconcile(KEY)

    assert world.job(KEY).status is Status.FINISHED
    assert world.order()["charge_id"] == "ch_pi_1"


def test_order_paid_by_other_charge_needs_review() -> None:
    world = after_restore(charged_before())
    world.add_order(status="paid", charge_id="ch_by_hand")
    a_restored_row(world)

    world.reconcile(KEY)

    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_reconciler_saves_reference_of_prepared_payment() -> None:
    world = after_restore(charged_before(execute=Fault.REFUSED_CONNECTION))
    a_restored_row(world, fence=1)

    world.reconcile(KEY)
    assert world.job(KEY).provider_ref == "pi_1"
    job = world.until_quiet(KEY)

    assert job.status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]
    assert [*world.payments.intents] == ["pi_1"]


def test_declined_payment_is_closed_before_restored_row_fails() -> None:
    payments = charged_before(execute=Fault.REFUSED_CONNECTION)
    payments.settle("pi_1", status="declined")
    world = after_restore(payments)
    a_restored_row(world, fence=1)

    job = world.until_quiet(KEY)

    assert job.status is Status.FAILED
    assert payments.intents["pi_1"].status == "canceled"


def test_closing_payment_is_not_charged_after_restore() -> None:
    payments = charged_before(execute=Fault.REFUSED_CONNECTION)
    world = after_restore(payments)
    closing = {"reason": "paid by hand", "code": "ruled_by_a_person", "result": {}}
    a_restored_row(world, fence=1, provider_ref="pi_1", closing=closing)

    job = world.until_quiet(KEY)

    assert job.status is Status.FAILED
    assert payments.charges == []
    assert payments.intents["pi_1"].status == "canceled"


def test_message_for_restored_row_waits_for_reconciler() -> None:
    world = after_restore(charged_before())
    a_restored_row(world)

    assert isinstance(world.run(charge()), Parked)


def test_new_row_after_replay_window_skips_lookup() -> None:
    world = after_restore(FakePayments())
    world.clock.move(days=19)

    assert isinstance(world.run(charge()), Finished)
    assert [step for step, _ in world.payments.calls] == ["prepare", "execute"]


def test_restored_row_is_looked_up_after_replay_window() -> None:
    world = after_restore(charged_before())
    a_restored_row(world)
    world.clock.move(days=400)

    world.reconcile(KEY)

    assert world.job(KEY).status is Status.FINISHED


SETTLING = TableOpen(deployment="dev", replays_until=START + timedelta(days=18))


@pytest.mark.parametrize(("safety", "review"), [(Safety.KEYED, True), (Safety.NATURAL, False)])
def test_unsupported_lookup_retries_only_natural_effects(safety: Safety, *, review: bool) -> None:
    contract = errand(safety, asks=lambda _: CannotAsk())

    heard = heard_about(a_job(created_at=START), contract, MESSAGE, SETTLING)

    assert isinstance(heard.answer, CannotAsk) is not review


def repaired(world: World, repair: Repair, *, dry_run: bool = False) -> Outcome:
    order = RepairOrder(
        key=KEY,
        repair=repair,
        version=world.job(KEY).version,
        reason="after the restore",
        actor="ada",
        dry_run=dry_run,
    )
    return world.repairer().repair(order)


@pytest.mark.parametrize("repair", [Repair.RETURN, Repair.FAIL])
def test_repair_saves_lost_reference_first(repair: Repair) -> None:
    world = after_restore(charged_before())
    a_restored_row(world, fence=1, deployment=None)
    world.store.jobs[KEY] = replace(world.job(KEY), status=Status.NEEDS_REVIEW, due_at=None)

    first = repaired(world, repair)
    job = world.job(KEY)

    assert isinstance(first, Repaired)
    assert "pi_1 was found" in first.said
    assert (job.status, job.provider_ref) == (Status.NEEDS_REVIEW, "pi_1")
    assert isinstance(repaired(world, repair), NotAllowed), "it was charged"


def test_repair_applies_when_job_never_reached_provider() -> None:
    world = after_restore(FakePayments())
    a_restored_row(world, fence=1)
    world.store.jobs[KEY] = replace(world.job(KEY), status=Status.NEEDS_REVIEW, due_at=None)

    assert isinstance(repaired(world, Repair.FAIL), Repaired)
    assert world.job(KEY).status is Status.FAILED


def test_repair_changes_nothing_when_provider_is_unreachable() -> None:
    world = after_restore(charged_before())
    a_restored_row(world, fence=1)
    world.store.jobs[KEY] = replace(world.job(KEY), status=Status.NEEDS_REVIEW, due_at=None)
    world.payments.fails("find", Fault.TIMEOUT_BEFORE)

    assert isinstance(repaired(world, Repair.FAIL), NoAnswer)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
