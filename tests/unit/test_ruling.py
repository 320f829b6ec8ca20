"""Marking a job as done or as failed: a person's word, and true to our own rows."""

import json
from collections.abc import Callable

import pytest

from oncely.contract import Mismatch, Proceed, Settled, Standing
from oncely.domain.answers import Done, Odd, Refused
from oncely.domain.decide import late_answer
from oncely.domain.fingerprint import fingerprint
from oncely.domain.lifecycle import Status
from oncely.domain.repairs import Repair
from oncely.domain.writes import LocalWrite
from oncely.services.outcomes import Failed, Finished, NeedsReview, Unknown
from oncely.services.repair_order import (
    LocalRowsRefuse,
    NoAnswer,
    NotAllowed,
    Repaired,
)
from oncely.services.ruling import changed_since
from tests.support.payments import Fault, Intent
from tests.support.repairs import KEY, in_review, repair, untouched
from tests.support.world import World, charge
from tests.unit.errand_contract import FACTS, MESSAGE, READY_TO_GO, errand_type
from tests.unit.errand_contract import KEY as ERRAND
from tests.unit.samples import a_job


def test_mark_finished_pays_order_in_same_write() -> None:
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


def test_mark_finished_needs_reference() -> None:
    assert isinstance(repair(in_review(), Repair.FINISH), NotAllowed)


def test_mark_failed_fails_order_after_payment_is_closed() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)

    assert isinstance(repair(world, Repair.FAIL), Repaired)
    assert world.job(KEY).status is Status.READY
    assert world.order()["status"] == "payment_pending"
    outcome = world.run(world.outbox.sent.pop())

    assert isinstance(outcome, Failed)
    assert outcome.result["code"] == "ruled_by_a_person"
    assert world.payments.intents["pi_1"].status == "canceled"
    assert (world.job(KEY).status, world.order()["status"]) == (Status.FAILED, "payment_failed")


def test_mark_finished_conflicts_when_order_changed() -> None:
    world = in_review()
    world.add_order(amount=9900)
    before = world.job(KEY)

    outcome = repair(world, Repair.FINISH, reference="ch_pi_1")

    assert isinstance(outcome, LocalRowsRefuse)
    assert untouched(world, before)
    assert world.order()["status"] == "payment_pending"


def test_mark_failed_is_allowed_when_order_is_missing() -> None:
    world = in_review()
    world.payments.settle("pi_1", status="refunded")
    world.store.business.rows.clear()

    assert isinstance(repair(world, Repair.FINISH, reference="ch_1"), LocalRowsRefuse)
    assert isinstance(repair(world, Repair.FAIL), Repaired)


def test_mark_finished_accepts_order_paid_by_hand() -> None:
    world = in_review()
    world.add_order(status="paid", charge_id="ch_by_hand")

    assert isinstance(repair(world, Repair.FINISH, reference="ch_by_hand"), Repaired)
    assert world.order()["charge_id"] == "ch_by_hand"


def test_mark_failed_keeps_paid_order_after_refund() -> None:
    world = in_review()
    world.payments.settle("pi_1", status="refunded")
    world.add_order(status="paid", charge_id="ch_by_hand")

    assert isinstance(repair(world, Repair.FAIL), Repaired)
    assert world.job(KEY).status is Status.FAILED
    assert (world.order()["status"], world.order()["charge_id"]) == ("paid", "ch_by_hand")


def test_mark_failed_conflicts_while_job_paid_its_order() -> None:
    world = World()
    world.add_order()
    world.run(charge())
    world.payments.settle("pi_1", status="refunded")
    done = world.job(KEY)
    contradicted = late_answer(done, Refused("declined after all", "card_declined"), fence=1)
    world.store.swap(done, contradicted.on(done, now=world.clock.now(), actor="a late worker"))

    dry = repair(world, Repair.FAIL, dry_run=True)

    assert isinstance(dry, LocalRowsRefuse)
    assert dry == repair(world, Repair.FAIL)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_mark_failed_keeps_cancelled_order() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    world.payments.settle("pi_1", status="canceled")
    world.add_order(status="cancelled")

    assert isinstance(repair(world, Repair.FAIL), Repaired)
    assert world.job(KEY).status is Status.FAILED
    assert world.order()["status"] == "cancelled"


def test_mark_finished_changes_nothing_when_rows_conflict() -> None:
    world = in_review()
    world.add_order(status="shipped_without_payment")
    before = world.job(KEY)

    assert isinstance(repair(world, Repair.FINISH, reference="ch_1"), LocalRowsRefuse)
    assert untouched(world, before)


def test_dry_run_reports_business_row_conflict() -> None:
    world = in_review()
    world.add_order(status="shipped_without_payment")

    dry = repair(world, Repair.FINISH, reference="ch_1", dry_run=True)

    assert isinstance(dry, LocalRowsRefuse)
    assert dry == repair(world, Repair.FINISH, reference="ch_1")


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (READY_TO_GO, None),
        (Settled[str](answer=Done("run before")), None),
        (Mismatch("another errand"), "another errand"),
        (Settled[str](answer=Odd("it was refunded")), "it was refunded"),
        (
            Proceed(facts=FACTS, values={"to": "the post office"}),
            "the business values changed since a worker first claimed it",
        ),
    ],
)
def test_business_rows_are_changed_when_precheck_differs(
    standing: Standing[str], why: str | None
) -> None:
    row = a_job(fingerprint=fingerprint(READY_TO_GO.values))

    assert changed_since(row, standing) == why


def review_of(checks: Callable[[], Standing[str]]) -> World:
    """An errand that needs review, and what our own rows say of it by now."""
    world = World(contracts=(errand_type(checks=checks),))
    values = fingerprint(READY_TO_GO.values)
    named = {"job_key": ERRAND, "job_type": "errand.run", "message": MESSAGE.as_json()}
    world.store.create(a_job(**named, status=Status.NEEDS_REVIEW, fingerprint=values))
    return world


def test_mark_finished_applies_writes_of_resolved_precheck() -> None:
    noted = LocalWrite(table="errands", key={"id": "7"}, set={"seen": True}, may_create=True)
    world = review_of(lambda: Settled(answer=Done("run before"), writes=(noted,)))

    outcome = repair(world, Repair.FINISH, key=ERRAND, reference="run_1")

    assert isinstance(outcome, Repaired)
    assert world.tools.rows.get("errands", {"id": "7"}) == {"id": "7", "seen": True}


@pytest.mark.parametrize(
    ("checks", "why"),
    [
        (lambda: Mismatch("another errand"), "another errand"),
        (
            lambda: Proceed(facts=None, values=READY_TO_GO.values),
            "our own rows do not tell any more what was asked for",
        ),
    ],
)
def test_mark_finished_conflicts_without_matching_rows(
    checks: Callable[[], Standing[str]], why: str
) -> None:
    outcome = repair(review_of(checks), Repair.FINISH, key=ERRAND, reference="run_1")

    assert outcome == LocalRowsRefuse(f"{why}: mend them, or undo it outside and mark it as failed")


def test_mark_failed_is_not_allowed_when_payment_succeeded() -> None:
    world = in_review()
    before = world.job(KEY)

    outcome = repair(world, Repair.FAIL)

    assert isinstance(outcome, NotAllowed)
    assert "succeeded" in outcome.why
    assert untouched(world, before)


def test_mark_failed_is_not_allowed_while_payment_is_pending() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    world.payments.settle("pi_1", status="processing")

    assert isinstance(repair(world, Repair.FAIL), NotAllowed)


def test_mark_failed_is_not_allowed_when_other_payment_paid() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    world.payments.settle("pi_1", status="canceled")
    own = world.payments.intents["pi_1"].payment
    world.payments.intents["pi_2"] = Intent("pi_2", own, "succeeded")

    outcome = repair(world, Repair.FAIL)

    assert isinstance(outcome, NotAllowed)
    assert "pi_2" in outcome.why


def test_mark_failed_needs_reachable_provider() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    world.payments.fails("ask_closed", Fault.TIMEOUT_BEFORE)

    assert isinstance(repair(world, Repair.FAIL), NoAnswer)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_mark_failed_itself_closes_nothing_at_provider() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)

    repair(world, Repair.FAIL)

    assert world.payments.intents["pi_1"].status == "requires_confirmation"
    assert "close" not in {step for step, _ in world.payments.calls}


def test_lost_close_is_retried_without_confirming_payment() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    repair(world, Repair.FAIL)
    world.payments.fails("close", Fault.TIMEOUT_BEFORE)

    assert isinstance(world.run(world.outbox.sent.pop()), Unknown)
    job = world.until_quiet(KEY)

    assert job.status is Status.FAILED
    assert world.payments.intents["pi_1"].status == "canceled"
    assert world.payments.charges == []


def test_payment_that_succeeds_before_close_finishes_job() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    repair(world, Repair.FAIL)
    world.payments.settle("pi_1", status="succeeded")

    assert isinstance(world.run(world.outbox.sent.pop()), Finished)
    assert world.order()["status"] == "paid"


def test_open_payment_without_order_is_not_marked_failed() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    world.store.business.rows.clear()

    outcome = repair(world, Repair.FAIL)

    assert isinstance(outcome, LocalRowsRefuse)
    assert "cancel it at Stripe" in outcome.why


def test_close_needs_review_when_order_is_missing() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    repair(world, Repair.FAIL)
    world.store.business.rows.clear()

    assert isinstance(world.run(world.outbox.sent.pop()), NeedsReview)
    assert world.payments.intents["pi_1"].status == "requires_confirmation"


def test_close_keeps_order_paid_by_hand() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    repair(world, Repair.FAIL)
    world.add_order(status="paid", charge_id="ch_by_hand")

    assert isinstance(world.run(world.outbox.sent.pop()), Failed)
    assert (world.order()["status"], world.order()["charge_id"]) == ("paid", "ch_by_hand")
    assert world.payments.intents["pi_1"].status == "canceled"


def test_reopen_cancels_close_request() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    repair(world, Repair.FAIL)
    world.clock.move(hours=25)
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    world.clock.move(minutes=1)

    assert isinstance(repair(world, Repair.RETURN), Repaired)

    assert world.job(KEY).closing is None
