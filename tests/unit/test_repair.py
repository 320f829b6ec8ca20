"""Asking, returning, sending and trying again: what a person has the machine do."""

import json
from dataclasses import replace

import pytest

from oncely.domain.actors import person
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.repairs import Repair
from oncely.domain.story import story
from oncely.services.outcomes import Finished
from oncely.services.repair_order import (
    Changed,
    LocalRowsRefuse,
    NoAnswer,
    NotAllowed,
    Repaired,
    RepairOrder,
    WouldRepair,
)
from tests.support.mortal import Meanwhile
from tests.support.payments import Fault
from tests.support.repairs import ADA, KEY, REASON, declined, in_review, repair, unknown, untouched
from tests.support.world import World, charge

RECEIPT = JobKey("receipt.send:order_18452")


def test_asking_about_an_unknown_charge_ends_it_in_the_persons_name() -> None:
    world = unknown()

    outcome = repair(world, Repair.ASK)

    assert isinstance(outcome, Repaired)
    assert outcome.said == "Stripe says: succeeded, charged 12.50 EUR as ch_pi_1"
    assert outcome.after == world.job(KEY)
    assert world.order()["status"] == "paid"
    *_, asked, ended = world.job(KEY).evidence
    assert (asked.actor, asked.event, asked.reason) == (
        person(ADA),
        Event.NOTE,
        f"asked the provider: {REASON}",
    )
    assert (ended.actor, ended.event) == (person(ADA), Event.CONFIRM)


def test_asking_about_a_charge_that_never_happened_runs_it_again() -> None:
    world = unknown(Fault.TIMEOUT_BEFORE)
    world.clock.move(minutes=1)

    repair(world, Repair.ASK)

    assert world.job(KEY).status is Status.READY
    world.until_quiet(KEY)
    assert world.payments.charges == ["pi_1"]


def test_asking_does_not_wait_until_the_job_is_due() -> None:
    world = unknown()
    world.payments.fails("look_up", Fault.TIMEOUT_AFTER)
    world.reconcile(KEY)
    due_at = world.job(KEY).due_at
    assert due_at is not None
    assert due_at > world.clock.now()

    repair(world, Repair.ASK)

    assert world.job(KEY).status is Status.FINISHED


def test_asking_finds_out_about_a_worker_that_died() -> None:
    world = unknown()
    dead = world.job(KEY)
    world.store.jobs[KEY] = Job(**{**vars(dead), "status": Status.STARTED})

    assert isinstance(repair(world, Repair.ASK), Repaired)
    assert world.job(KEY).status is Status.FINISHED


def test_a_provider_that_cannot_be_reached_is_said_to_be_so() -> None:
    world = unknown()
    world.payments.fails("look_up", Fault.TIMEOUT_AFTER)

    outcome = repair(world, Repair.ASK)

    assert outcome == NoAnswer("Stripe says: no answer, timeout")
    assert world.job(KEY).status is Status.UNKNOWN


def test_asking_about_a_review_notes_the_answer_and_moves_nothing() -> None:
    world = in_review()

    outcome = repair(world, Repair.ASK)

    assert isinstance(outcome, Repaired)
    assert "charged 12.50 EUR" in outcome.said
    job = world.job(KEY)
    assert (job.status, job.evidence[-1].event) == (Status.NEEDS_REVIEW, Event.NOTE)
    assert "charged 12.50 EUR" in job.evidence[-1].reason
    assert world.order()["status"] == "payment_pending"


def test_a_review_returns_to_ready_when_nothing_was_charged_and_is_charged_once() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)

    outcome = repair(world, Repair.RETURN)

    assert isinstance(outcome, Repaired)
    assert outcome.said.startswith("Stripe says: ")
    job = world.job(KEY)
    assert (job.status, job.key_number, job.reopened_at) == (Status.READY, 2, world.clock.now())
    (body,) = world.outbox.sent
    assert isinstance(world.run(body), Finished)
    assert world.payments.charges == ["pi_1"]


def test_review_that_no_worker_claimed_returns_without_a_lookup() -> None:
    world = World()
    world.add_order()
    world.enqueuer().enqueue(charge())
    world.clock.move(hours=25)
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    world.outbox.sent.clear()

    outcome = repair(world, Repair.RETURN)

    assert isinstance(outcome, Repaired)
    assert outcome.said == "the row is proof enough"
    assert (outcome.after.status, outcome.after.key_number) == (Status.READY, 1)
    assert world.payments.calls == []
    assert len(world.outbox.sent) == 1


def test_a_review_whose_charge_happened_is_never_returned() -> None:
    world = in_review()
    before = world.job(KEY)

    outcome = repair(world, Repair.RETURN)

    assert isinstance(outcome, NotAllowed)
    assert "charged 12.50 EUR" in outcome.why
    assert untouched(world, before)
    assert world.outbox.sent == []


def test_a_return_needs_the_provider_to_be_reached() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    world.payments.fails("look_up", Fault.TIMEOUT_AFTER)
    before = world.job(KEY)

    assert isinstance(repair(world, Repair.RETURN), NoAnswer)
    assert untouched(world, before)


def test_a_return_is_refused_when_the_order_says_something_else_by_now() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    world.add_order(amount=9900)

    assert isinstance(repair(world, Repair.RETURN), LocalRowsRefuse)


def test_a_mail_that_may_have_gone_out_is_never_returned() -> None:
    world = World()
    world.add_order(status="paid")
    world.mail.fault = "timeout"
    world.store.create(_review_of_a_receipt(world))

    assert isinstance(repair(world, Repair.RETURN, key=RECEIPT), NotAllowed)
    assert isinstance(repair(world, Repair.FAIL, key=RECEIPT), Repaired)


def _review_of_a_receipt(world: World) -> Job:
    now = world.clock.now()
    return Job(
        job_key=RECEIPT,
        job_type="receipt.send",
        status=Status.NEEDS_REVIEW,
        message={"job": "receipt.send", "v": 1, "order_id": "18452"},
        created_at=now,
        updated_at=now,
        fence=1,
    )


def test_a_lost_message_is_sent_again_by_hand() -> None:
    world = World()
    world.add_order()
    world.enqueuer().enqueue(charge())
    world.outbox.sent.clear()

    outcome = repair(world, Repair.RESEND)

    assert isinstance(outcome, Repaired)
    assert outcome.said == "its message is sent again"
    assert [json.loads(body)["order_id"] for body in world.outbox.sent] == ["18452"]
    assert world.job(KEY).evidence[-1].actor == person(ADA)


def test_a_declined_order_is_tried_again_as_a_new_job() -> None:
    world = declined()
    world.outbox.sent.clear()

    outcome = repair(world, Repair.AGAIN)

    assert isinstance(outcome, Repaired)
    assert outcome.said == f"{KEY}:2 is sent"
    assert world.job(KEY).status is Status.FAILED
    assert world.job(KEY).evidence[-1].reason == f"tried again as {KEY}:2: {REASON}"
    (body,) = world.outbox.sent
    assert isinstance(world.run(body), Finished)
    assert world.order()["status"] == "paid"


def test_who_decided_on_a_new_attempt_is_kept_with_it() -> None:
    world = declined()

    repair(world, Repair.AGAIN)

    began = world.job(JobKey(f"{KEY}:2")).evidence[0]
    assert (began.actor, began.event) == (person(ADA), Event.ENQUEUE)
    assert began.reason == f"after {KEY}: {REASON}"


@pytest.mark.parametrize(
    ("world", "what"),
    [(in_review(Fault.TIMEOUT_BEFORE), Repair.RETURN), (declined(), Repair.AGAIN)],
)
def test_a_message_that_its_queue_did_not_take_is_not_said_to_be_sent(
    world: World, what: Repair
) -> None:
    world.outbox.refuses = frozenset({0})

    outcome = repair(world, what)

    assert isinstance(outcome, Repaired)
    assert "its queue did not take the message" in outcome.said


@pytest.mark.parametrize("name", ["worker", "reconciler", "producer", "publisher", "dead letters"])
def test_a_person_who_is_called_like_the_machine_is_not_taken_for_it(name: str) -> None:
    world = declined()

    repair(world, Repair.AGAIN, actor=name)

    told = story(world.job(KEY))
    assert (told[0].who, told[-1].who) == ("worker", f"{name} (person)")
    assert story(world.job(JobKey(f"{KEY}:2")))[0].who == f"{name} (person)"


def test_a_second_new_attempt_at_the_same_time_is_refused() -> None:
    world = declined()
    repair(world, Repair.AGAIN)

    again = repair(world, Repair.AGAIN)

    assert isinstance(again, NotAllowed)
    assert f"{KEY}:2" in again.why


def test_asking_about_a_review_needs_the_provider_to_be_reached() -> None:
    world = in_review()
    before = world.job(KEY)
    world.payments.fails("look_up", Fault.TIMEOUT_AFTER)

    outcome = repair(world, Repair.ASK)

    assert isinstance(outcome, NoAnswer)
    assert untouched(world, before)


def test_asking_about_a_review_whose_order_is_gone_names_our_own_rows() -> None:
    world = in_review()
    world.store.business.rows.clear()

    outcome = repair(world, Repair.ASK)

    assert isinstance(outcome, LocalRowsRefuse)
    assert outcome.why.endswith(": mend our own rows first")


@pytest.mark.parametrize("what", [Repair.ASK, Repair.RETURN])
def test_repair_of_a_row_that_changes_meanwhile_shows_the_row_as_it_is(what: Repair) -> None:
    world = unknown() if what is Repair.ASK else in_review(Fault.TIMEOUT_BEFORE)
    version, store = world.job(KEY).version, world.store
    once = iter(["meanwhile"])

    def somebody_notes() -> None:
        for reason in once:
            row, now = store.jobs[KEY], world.clock.now()
            store.jobs[KEY] = row.apply(Event.NOTE, now=now, actor="bob", reason=reason)

    world.store = Meanwhile(store, "get", somebody_notes)
    outcome = world.repairer().repair(an_order(what, version))

    assert isinstance(outcome, Changed)
    assert outcome.now.evidence[-1].reason == "meanwhile"


def test_repair_of_a_row_that_was_deleted_meanwhile_shows_it_as_it_was() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    before, store = world.job(KEY), world.store
    world.store = Meanwhile(store, "get", store.jobs.clear)

    outcome = world.repairer().repair(an_order(Repair.RETURN, before.version))

    assert outcome == Changed(before)


@pytest.mark.parametrize("deleted", [True, False])
def test_asking_about_a_job_that_another_ends_meanwhile_shows_that_end(*, deleted: bool) -> None:
    world = unknown()
    before, store = world.job(KEY), world.store

    def another_ends_it() -> None:
        ended = replace(store.jobs[KEY], status=Status.FINISHED, due_at=None)
        store.jobs.clear()
        if not deleted:
            store.jobs[KEY] = ended

    world.store = Meanwhile(store, "swap", another_ends_it)
    outcome = world.repairer().repair(an_order(Repair.ASK, before.version))

    assert isinstance(outcome, Changed)
    assert outcome.now.status is (Status.UNKNOWN if deleted else Status.FINISHED)


def test_dry_run_of_asking_promises_no_end_while_the_provider_has_not_decided() -> None:
    world = unknown()
    world.payments.settle("pi_1", status="processing")

    outcome = repair(world, Repair.ASK, dry_run=True)

    assert isinstance(outcome, WouldRepair)
    assert "our own rows" not in outcome.said
    assert outcome.after.status is Status.UNKNOWN


def an_order(what: Repair, version: int) -> RepairOrder:
    return RepairOrder(key=KEY, repair=what, version=version, reason="a call", actor="ada")
