"""A person's repairs: conditional on what was seen, evidence with a name, and true to the rows."""

import json

import pytest

from oncely.domain.actors import person
from oncely.domain.answers import Refused
from oncely.domain.decide import late_answer
from oncely.domain.errors import InvalidRequestError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.repairs import Repair
from oncely.domain.story import story
from oncely.services.outcomes import Finished
from oncely.services.repair import (
    Changed,
    LocalRowsRefuse,
    NoAnswer,
    NoSuchJob,
    NotAllowed,
    Outcome,
    Repaired,
    RepairOrder,
    WouldRepair,
)
from tests.support.payments import Fault
from tests.support.world import World, charge

KEY = JobKey("payment.charge:order_18452")
RECEIPT = JobKey("receipt.send:order_18452")
ADA = "ada@example.com"
REASON = "the customer called"


def repair(world: World, what: Repair, *, key: JobKey = KEY, **more: object) -> Outcome:
    seen = {"version": world.job(key).version, "reason": REASON, "actor": ADA}
    order = RepairOrder(key=key, repair=what, **{**seen, **more})  # type: ignore[arg-type]  # fields by name
    return world.repairer().repair(order)


def unknown(fault: Fault = Fault.TIMEOUT_AFTER) -> World:
    world = World()
    world.add_order()
    world.payments.fails("execute", fault)
    world.run(charge())
    assert world.job(KEY).status is Status.UNKNOWN
    return world


def in_review(fault: Fault = Fault.TIMEOUT_AFTER) -> World:
    """Nobody could say for a day what became of it."""
    world = unknown(fault)
    world.clock.move(hours=25)
    world.payments.fails("look_up", Fault.TIMEOUT_AFTER)
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    return world


def declined() -> World:
    world = World()
    world.add_order()
    world.payments.declines = True
    world.run(charge())
    assert world.job(KEY).status is Status.FAILED
    world.payments.declines = False
    return world


def untouched(world: World, before: Job) -> bool:
    return world.job(before.job_key) == before


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
    job = world.job(KEY)
    assert (job.status, job.key_number, job.reopened_at) == (Status.READY, 2, world.clock.now())
    (body,) = world.outbox.sent
    assert isinstance(world.run(body), Finished)
    assert world.payments.charges == ["pi_1"]


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

    assert isinstance(repair(world, Repair.FAIL), LocalRowsRefuse)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_rows_that_refuse_in_the_last_moment_leave_everything_as_it_was() -> None:
    world = in_review()
    world.add_order(status="shipped_without_payment")
    before = world.job(KEY)

    assert isinstance(repair(world, Repair.FINISH, reference="ch_1"), LocalRowsRefuse)
    assert untouched(world, before)


@pytest.mark.parametrize("what", [Repair.FINISH, Repair.FAIL])
def test_a_dry_run_does_not_promise_what_our_own_rows_refuse(what: Repair) -> None:
    world = in_review()
    world.add_order(status="shipped_without_payment")

    dry = repair(world, what, reference="ch_1", dry_run=True)

    assert isinstance(dry, LocalRowsRefuse)
    assert dry == repair(world, what, reference="ch_1")


def test_a_dry_run_of_asking_says_that_our_own_rows_are_not_looked_at_yet() -> None:
    outcome = repair(unknown(), Repair.ASK, dry_run=True)

    assert isinstance(outcome, WouldRepair)
    assert outcome.said.endswith("whether our own rows take it is seen when it is done")


def test_a_lost_message_is_sent_again_by_hand() -> None:
    world = World()
    world.add_order()
    world.enqueuer().enqueue(charge())
    world.outbox.sent.clear()

    outcome = repair(world, Repair.RESEND)

    assert isinstance(outcome, Repaired)
    assert [json.loads(body)["order_id"] for body in world.outbox.sent] == ["18452"]
    assert world.job(KEY).evidence[-1].actor == person(ADA)


def test_a_declined_order_is_tried_again_as_a_new_job() -> None:
    world = declined()
    world.outbox.sent.clear()

    outcome = repair(world, Repair.AGAIN)

    assert isinstance(outcome, Repaired)
    assert f"{KEY}:2" in outcome.said
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


@pytest.mark.parametrize("what", Repair)
def test_a_stale_version_is_refused_and_nothing_is_asked_or_written(what: Repair) -> None:
    world = in_review()
    before = world.job(KEY)
    world.payments.calls.clear()

    outcome = repair(world, what, version=before.version - 1, reference="ch_1")

    assert outcome == Changed(before)
    assert untouched(world, before)
    assert world.payments.calls == []


class _Slow:
    """A provider during whose answer somebody else changes the row."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __getattr__(self, name: str) -> object:
        job = self.world.job(KEY)
        noted = job.apply(Event.NOTE, now=self.world.clock.now(), actor="bob", reason="meanwhile")
        self.world.store.swap(job, noted)
        return getattr(self.world.payments, name)


def test_a_row_that_changes_while_the_provider_answers_is_not_written_over() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    version = world.job(KEY).version
    slow = World(store=world.store, payments=_Slow(world), clock=world.clock)

    outcome = repair(slow, Repair.RETURN, version=version)

    assert isinstance(outcome, Changed)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


@pytest.mark.parametrize(
    ("world", "what"),
    [
        (unknown(), Repair.ASK),
        (in_review(), Repair.ASK),
        (in_review(Fault.TIMEOUT_BEFORE), Repair.RETURN),
        (in_review(), Repair.FINISH),
        (in_review(), Repair.FAIL),
        (declined(), Repair.AGAIN),
    ],
    ids=["ask", "ask in review", "return", "finish", "fail", "again"],
)
def test_a_dry_run_says_what_would_be_and_writes_nothing(world: World, what: Repair) -> None:
    before, order = world.job(KEY), world.order()
    world.outbox.sent.clear()

    outcome = repair(world, what, reason="", dry_run=True)

    assert isinstance(outcome, WouldRepair)
    assert outcome.after != before
    assert untouched(world, before)
    assert (world.order(), world.outbox.sent) == (order, [])


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_what_can_be_nobodys_key_is_refused_before_any_table_is_asked(key: str) -> None:
    with pytest.raises(InvalidRequestError, match="a job key has"):
        RepairOrder(key=JobKey(key), repair=Repair.ASK, version=1, reason="x", actor="ada")


def test_a_job_that_is_not_there_is_said_so() -> None:
    order = RepairOrder(
        key=JobKey("payment.charge:order_1"), repair=Repair.ASK, version=1, reason="x", actor="ada"
    )

    assert World().repairer().repair(order) == NoSuchJob()


def test_what_is_not_offered_is_refused_with_the_same_words() -> None:
    world = unknown()

    outcome = repair(world, Repair.FINISH, reference="ch_1")

    (offered,) = (
        one
        for one in world.inspector().show(KEY).repairs  # type: ignore[union-attr]  # it is there
        if one.repair is Repair.FINISH
    )
    assert outcome == NotAllowed(offered.why)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reason": "  "},
        {"reason": "x" * 501},
        {"actor": ""},
        {"reference": ""},
        {"reference": "two\nlines"},
        {"reference": "x" * 129},
    ],
)
def test_a_repair_without_a_reason_or_with_a_hostile_reference_is_refused(
    wrong: dict[str, str],
) -> None:
    fields = {"reason": REASON, "actor": "ada", **wrong}

    with pytest.raises(InvalidRequestError):
        RepairOrder(key=KEY, repair=Repair.ASK, version=1, **fields)  # type: ignore[arg-type]  # fields by name
