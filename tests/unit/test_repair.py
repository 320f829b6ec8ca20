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


def test_lookup_finishes_unknown_charge_as_operator() -> None:
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


def test_lookup_retries_charge_that_never_happened() -> None:
    world = unknown(Fault.TIMEOUT_BEFORE)
    world.clock.move(minutes=1)

    repair(world, Repair.ASK)

    assert world.job(KEY).status is Status.READY
    world.until_quiet(KEY)
    assert world.payments.charges == ["pi_1"]


def test_lookup_does_not_wait_until_job_is_due() -> None:
    world = unknown()
    world.payments.fails("look_up", Fault.TIMEOUT_AFTER)
    world.reconcile(KEY)
    due_at = world.job(KEY).due_at
    assert due_at is not None
    assert due_at > world.clock.now()

    repair(world, Repair.ASK)

    assert world.job(KEY).status is Status.FINISHED


def test_lookup_resolves_job_of_dead_worker() -> None:
    world = unknown()
    dead = world.job(KEY)
    world.store.jobs[KEY] = Job(**{**vars(dead), "status": Status.STARTED})

    assert isinstance(repair(world, Repair.ASK), Repaired)
    assert world.job(KEY).status is Status.FINISHED


def test_lookup_reports_unreachable_provider() -> None:
    world = unknown()
    world.payments.fails("look_up", Fault.TIMEOUT_AFTER)

    outcome = repair(world, Repair.ASK)

    assert outcome == NoAnswer("Stripe says: no answer, timeout")
    assert world.job(KEY).status is Status.UNKNOWN


def test_lookup_of_review_notes_outcome_and_keeps_status() -> None:
    world = in_review()

    outcome = repair(world, Repair.ASK)

    assert isinstance(outcome, Repaired)
    assert "charged 12.50 EUR" in outcome.said
    job = world.job(KEY)
    assert (job.status, job.evidence[-1].event) == (Status.NEEDS_REVIEW, Event.NOTE)
    assert "charged 12.50 EUR" in job.evidence[-1].reason
    assert world.order()["status"] == "payment_pending"


def test_review_without_charge_is_reopened_and_charged_once() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)

    outcome = repair(world, Repair.RETURN)

    assert isinstance(outcome, Repaired)
    assert outcome.said.startswith("Stripe says: ")
    job = world.job(KEY)
    assert (job.status, job.key_number, job.reopened_at) == (Status.READY, 2, world.clock.now())
    (body,) = world.outbox.sent
    assert isinstance(world.run(body), Finished)
    assert world.payments.charges == ["pi_1"]


def test_unclaimed_review_reopens_without_lookup() -> None:
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


def test_review_is_not_reopened_when_charge_happened() -> None:
    world = in_review()
    before = world.job(KEY)

    outcome = repair(world, Repair.RETURN)

    assert isinstance(outcome, NotAllowed)
    assert "charged 12.50 EUR" in outcome.why
    assert untouched(world, before)
    assert world.outbox.sent == []


def test_reopen_needs_reachable_provider() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    world.payments.fails("look_up", Fault.TIMEOUT_AFTER)
    before = world.job(KEY)

    assert isinstance(repair(world, Repair.RETURN), NoAnswer)
    assert untouched(world, before)


def test_reopen_conflicts_when_order_changed() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    world.add_order(amount=9900)

    assert isinstance(repair(world, Repair.RETURN), LocalRowsRefuse)


def test_ambiguous_mail_can_be_failed_but_not_reopened() -> None:
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


def test_lost_message_is_resent_by_operator() -> None:
    world = World()
    world.add_order()
    world.enqueuer().enqueue(charge())
    world.outbox.sent.clear()

    outcome = repair(world, Repair.RESEND)

    assert isinstance(outcome, Repaired)
    assert outcome.said == "its message is sent again"
    assert [json.loads(body)["order_id"] for body in world.outbox.sent] == ["18452"]
    assert world.job(KEY).evidence[-1].actor == person(ADA)


def test_declined_order_is_resubmitted_as_new_job() -> None:
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


def test_resubmitted_job_records_operator_and_reason() -> None:
    world = declined()

    repair(world, Repair.AGAIN)

    began = world.job(JobKey(f"{KEY}:2")).evidence[0]
    assert (began.actor, began.event) == (person(ADA), Event.ENQUEUE)
    assert began.reason == f"after {KEY}: {REASON}"


@pytest.mark.parametrize(
    ("world", "what"),
    [(in_review(Fault.TIMEOUT_BEFORE), Repair.RETURN), (declined(), Repair.AGAIN)],
)
def test_repair_reports_message_that_was_not_sent(world: World, what: Repair) -> None:
    world.outbox.refuses = frozenset({0})

    outcome = repair(world, what)

    assert isinstance(outcome, Repaired)
    assert "its queue did not take the message" in outcome.said


@pytest.mark.parametrize("name", ["worker", "reconciler", "producer", "publisher", "dead letters"])
def test_operator_named_like_component_is_distinguished(name: str) -> None:
    world = declined()

    repair(world, Repair.AGAIN, actor=name)

    told = story(world.job(KEY))
    assert (told[0].who, told[-1].who) == ("worker", f"{name} (person)")
    assert story(world.job(JobKey(f"{KEY}:2")))[0].who == f"{name} (person)"


def test_second_resubmission_is_not_allowed() -> None:
    world = declined()
    repair(world, Repair.AGAIN)

    again = repair(world, Repair.AGAIN)

    assert isinstance(again, NotAllowed)
    assert f"{KEY}:2" in again.why


def test_lookup_of_review_needs_reachable_provider() -> None:
    world = in_review()
    before = world.job(KEY)
    world.payments.fails("look_up", Fault.TIMEOUT_AFTER)

    outcome = repair(world, Repair.ASK)

    assert isinstance(outcome, NoAnswer)
    assert untouched(world, before)


def test_lookup_of_review_conflicts_when_order_is_missing() -> None:
    world = in_review()
    world.store.business.rows.clear()

    outcome = repair(world, Repair.ASK)

    assert isinstance(outcome, LocalRowsRefuse)
    assert outcome.why.endswith(": mend our own rows first")


@pytest.mark.parametrize("what", [Repair.ASK, Repair.RETURN])
def test_repair_shows_current_row_when_it_changes_meanwhile(what: Repair) -> None:
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


def test_repair_shows_last_known_row_when_it_is_deleted() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    before, store = world.job(KEY), world.store
    world.store = Meanwhile(store, "get", store.jobs.clear)

    outcome = world.repairer().repair(an_order(Repair.RETURN, before.version))

    assert outcome == Changed(before)


@pytest.mark.parametrize("deleted", [True, False])
def test_lookup_reports_change_when_job_ends_meanwhile(*, deleted: bool) -> None:
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


def test_lookup_dry_run_stays_unknown_while_charge_is_pending() -> None:
    world = unknown()
    world.payments.settle("pi_1", status="processing")

    outcome = repair(world, Repair.ASK, dry_run=True)

    assert isinstance(outcome, WouldRepair)
    assert "our own rows" not in outcome.said
    assert outcome.after.status is Status.UNKNOWN


def an_order(what: Repair, version: int) -> RepairOrder:
    return RepairOrder(key=KEY, repair=what, version=version, reason="a call", actor="ada")
