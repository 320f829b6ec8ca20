"""Marking a job as done or as failed: a person's word, and true to our own rows."""

import json

from oncely.domain.answers import Refused
from oncely.domain.decide import late_answer
from oncely.domain.lifecycle import Status
from oncely.domain.repairs import Repair
from oncely.services.repair_order import (
    LocalRowsRefuse,
    NotAllowed,
    Repaired,
)
from tests.support.payments import Fault
from tests.support.repairs import KEY, in_review, repair, untouched
from tests.support.world import World, charge


def test_marking_as_done_makes_the_order_paid_in_the_same_write() -> None:
    world = in_review()

    outcome = repair(world, Repair.FINISH, reference="ch_pi_1")

    assert isinstance(outcome, Repaired)
    assert (world.order()["status"], world.order()["charge_id"]) == ("paid", "ch_pi_1")
    assert "charge_requested_at" not in world.order()
    job = world.job(KEY)
    assert job.status is Status.FINISHED
    assert job.due_at is not None
    assert world.publisher().publish(KEY)
    assert json.loads(world.outbox.sent[-1])["job"] == "receipt.send"


def test_marking_as_done_needs_a_reference() -> None:
    assert isinstance(repair(in_review(), Repair.FINISH), NotAllowed)


def test_marking_as_failed_makes_the_order_payment_failed() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)

    assert isinstance(repair(world, Repair.FAIL), Repaired)
    assert (world.job(KEY).status, world.order()["status"]) == (Status.FAILED, "payment_failed")


def test_an_order_that_was_changed_meanwhile_is_not_called_paid() -> None:
    world = in_review()
    world.add_order(amount=9900)
    before = world.job(KEY)

    outcome = repair(world, Repair.FINISH, reference="ch_pi_1")

    assert isinstance(outcome, LocalRowsRefuse)
    assert untouched(world, before)
    assert world.order()["status"] == "payment_pending"


def test_a_job_whose_order_is_gone_can_still_be_closed_as_failed() -> None:
    world = in_review()
    world.store.business.rows.clear()

    assert isinstance(repair(world, Repair.FINISH, reference="ch_1"), LocalRowsRefuse)
    assert isinstance(repair(world, Repair.FAIL), Repaired)


def test_an_order_that_was_mended_by_hand_lets_its_job_be_marked_as_done() -> None:
    world = in_review()
    world.add_order(status="paid", charge_id="ch_by_hand")

    assert isinstance(repair(world, Repair.FINISH, reference="ch_by_hand"), Repaired)
    assert world.order()["charge_id"] == "ch_by_hand"


def test_a_charge_too_many_that_was_refunded_is_closed_as_failed_and_the_order_stays_paid() -> None:
    world = in_review()
    world.add_order(status="paid", charge_id="ch_by_hand")

    assert isinstance(repair(world, Repair.FAIL), Repaired)
    assert world.job(KEY).status is Status.FAILED
    assert (world.order()["status"], world.order()["charge_id"]) == ("paid", "ch_by_hand")


def test_a_job_that_paid_its_order_is_not_called_failed_while_the_order_is_paid() -> None:
    world = World()
    world.add_order()
    world.run(charge())
    done = world.job(KEY)
    contradicted = late_answer(done, Refused("declined after all", "card_declined"), fence=1)
    world.store.swap(done, contradicted.on(done, now=world.clock.now(), actor="a late worker"))

    dry = repair(world, Repair.FAIL, dry_run=True)

    assert isinstance(dry, LocalRowsRefuse)
    assert dry == repair(world, Repair.FAIL)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_a_job_of_an_order_that_was_cancelled_is_closed_as_failed_and_the_order_stays() -> None:
    world = in_review()
    world.add_order(status="cancelled")

    assert isinstance(repair(world, Repair.FAIL), Repaired)
    assert world.job(KEY).status is Status.FAILED
    assert world.order()["status"] == "cancelled"


def test_rows_that_refuse_in_the_last_moment_leave_everything_as_it_was() -> None:
    world = in_review()
    world.add_order(status="shipped_without_payment")
    before = world.job(KEY)

    assert isinstance(repair(world, Repair.FINISH, reference="ch_1"), LocalRowsRefuse)
    assert untouched(world, before)


def test_a_dry_run_does_not_promise_what_our_own_rows_refuse() -> None:
    world = in_review()
    world.add_order(status="shipped_without_payment")

    dry = repair(world, Repair.FINISH, reference="ch_1", dry_run=True)

    assert isinstance(dry, LocalRowsRefuse)
    assert dry == repair(world, Repair.FINISH, reference="ch_1")
