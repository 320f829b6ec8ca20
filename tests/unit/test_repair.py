"""Repairs that an operator requests: look up, reopen, resend and resubmit."""

import json
from dataclasses import replace

import pytest

from oncely.core.job_row import operator_actor
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair
from oncely.operate.job_view import timeline
from oncely.operate.repair_request import (
    BusinessRowConflict,
    NotAllowed,
    ProviderUnavailable,
    Repaired,
    RepairRequest,
    StaleVersion,
)
from tests.support.braintree_account import BraintreeAccount
from tests.support.crash_points import InterruptingPort
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import (
    KEY,
    OPERATOR,
    REASON,
    is_unchanged,
    repair_job,
    world_with_declined_job,
    world_with_review_job,
    world_with_unknown_job,
)
from tests.unit.samples import make_job

RECEIPT = JobKey("receipt.send:order_18452")


def test_lookup_finishes_unknown_charge_as_operator() -> None:
    world = world_with_unknown_job()

    outcome = repair_job(world, Repair.LOOK_UP)

    assert isinstance(outcome, Repaired)
    assert str(outcome.details) == "Stripe lookup: succeeded, charged 12.50 EUR as ch_1"
    assert outcome.after == world.job(KEY)
    assert world.order()["status"] == "paid"
    *_, asked, ended = world.job(KEY).evidence
    assert (asked.event, ended.event) == (Event.NOTE, Event.CONFIRM)
    assert asked.reason == f"looked up: {REASON}"
    assert asked.actor == ended.actor == operator_actor(OPERATOR)


def test_lookup_retries_charge_that_never_happened() -> None:
    world = world_with_unknown_job(ProviderFault.TIMEOUT_BEFORE)
    world.clock.advance(minutes=1)

    repair_job(world, Repair.LOOK_UP)

    assert world.job(KEY).status is Status.READY
    world.run_until_idle(KEY)
    assert world.payments.charges == ["pi_1"]


def test_lookup_does_not_wait_until_job_is_due() -> None:
    world = world_with_unknown_job()
    world.payments.fail_next("lookup", ProviderFault.TIMEOUT_AFTER)
    world.reconcile(KEY)
    due_at = world.job(KEY).due_at
    assert due_at is not None
    assert due_at > world.clock.now()

    repair_job(world, Repair.LOOK_UP)

    assert world.job(KEY).status is Status.FINISHED


def test_lookup_resolves_job_of_dead_worker() -> None:
    world = world_with_unknown_job()
    world.store.jobs[KEY] = replace(world.job(KEY), status=Status.STARTED)
    assert isinstance(repair_job(world, Repair.LOOK_UP), Repaired)
    assert world.job(KEY).status is Status.FINISHED


def test_lookup_reports_unreachable_provider() -> None:
    world = world_with_unknown_job()
    world.payments.fail_next("lookup", ProviderFault.TIMEOUT_AFTER)

    outcome = repair_job(world, Repair.LOOK_UP)

    assert isinstance(outcome, ProviderUnavailable)
    assert outcome.reason.startswith("Stripe lookup: no answer, listing the customer's payments")
    assert "\n" not in outcome.reason
    assert world.job(KEY).status is Status.UNKNOWN


def test_lookup_of_review_notes_outcome_and_keeps_status() -> None:
    world = world_with_review_job()

    outcome = repair_job(world, Repair.LOOK_UP)

    assert isinstance(outcome, Repaired)
    assert "charged 12.50 EUR" in str(outcome.details)
    job = world.job(KEY)
    assert (job.status, job.evidence[-1].event) == (Status.NEEDS_REVIEW, Event.NOTE)
    assert "charged 12.50 EUR" in job.evidence[-1].reason
    assert world.order()["status"] == "payment_pending"


def test_review_without_charge_is_reopened_and_charged_once() -> None:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)

    outcome = repair_job(world, Repair.REOPEN)

    assert isinstance(outcome, Repaired)
    assert str(outcome.details).startswith("Stripe lookup: ")
    job = world.job(KEY)
    assert (job.status, job.key_number, job.age_from) == (Status.READY, 2, world.clock.now())
    (body,) = world.outbox.sent
    assert is_finished(world.run(body))
    assert world.payments.charges == ["pi_1"]


def test_unclaimed_review_reopens_without_lookup(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())
    world.clock.advance(hours=25)
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    world.outbox.sent.clear()

    outcome = repair_job(world, Repair.REOPEN)

    assert isinstance(outcome, Repaired)
    assert str(outcome.details) == "no lookup needed: the row proves that nothing was sent"
    assert (outcome.after.status, outcome.after.key_number) == (Status.READY, 1)
    assert world.payments.calls == []
    assert len(world.outbox.sent) == 1


def test_review_is_not_reopened_when_charge_happened() -> None:
    world = world_with_review_job()
    before = world.job(KEY)

    outcome = repair_job(world, Repair.REOPEN)

    assert isinstance(outcome, NotAllowed)
    assert "charged 12.50 EUR" in outcome.reason
    assert is_unchanged(world, before)
    assert world.outbox.sent == []


@pytest.mark.parametrize("what", [Repair.REOPEN, Repair.LOOK_UP])
def test_repair_of_review_needs_reachable_provider(what: Repair) -> None:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)
    world.payments.fail_next("lookup", ProviderFault.TIMEOUT_AFTER)
    before = world.job(KEY)

    assert isinstance(repair_job(world, what), ProviderUnavailable)
    assert is_unchanged(world, before)


def test_reopen_conflicts_when_order_changed() -> None:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)
    world.add_order(amount=9900)
    assert isinstance(repair_job(world, Repair.REOPEN), BusinessRowConflict)


def test_ambiguous_mail_can_be_failed_but_not_reopened(world: InMemoryStack) -> None:
    world.add_order(status="paid")
    message = {"job": "receipt.send", "v": 1, "order_id": "18452"}
    named = {"job_key": RECEIPT, "job_type": "receipt.send", "message": message}
    world.store.create(make_job(**named, status=Status.NEEDS_REVIEW, fingerprint=None))

    assert isinstance(repair_job(world, Repair.REOPEN, key=RECEIPT), NotAllowed)
    assert isinstance(repair_job(world, Repair.MARK_FAILED, key=RECEIPT), Repaired)


def test_lost_message_is_resent_by_operator(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())
    world.outbox.sent.clear()

    outcome = repair_job(world, Repair.RESEND)

    assert isinstance(outcome, Repaired)
    assert str(outcome.details) == "message resent"
    assert [json.loads(body)["order_id"] for body in world.outbox.sent] == ["18452"]
    assert world.job(KEY).evidence[-1].actor == operator_actor(OPERATOR)


def test_declined_order_is_resubmitted_as_new_job() -> None:
    world = world_with_declined_job()
    world.outbox.sent.clear()

    outcome = repair_job(world, Repair.RESUBMIT)

    assert isinstance(outcome, Repaired)
    assert str(outcome.details) == f"{KEY}:2 is sent"
    assert world.job(KEY).status is Status.FAILED
    assert world.job(KEY).evidence[-1].reason == f"resubmitted as {KEY}:2: {REASON}"
    first = world.job(JobKey(f"{KEY}:2")).evidence[0]
    assert (first.actor, first.event) == (operator_actor(OPERATOR), Event.ENQUEUE)
    assert first.reason == f"after {KEY}: {REASON}"
    again = repair_job(world, Repair.RESUBMIT)
    assert isinstance(again, NotAllowed)
    assert f"{KEY}:2" in again.reason
    (body,) = world.outbox.sent
    assert is_finished(world.run(body))
    assert world.order()["status"] == "paid"


@pytest.mark.parametrize(
    ("world", "what"),
    [
        (world_with_review_job(ProviderFault.TIMEOUT_BEFORE), Repair.REOPEN),
        (world_with_declined_job(), Repair.RESUBMIT),
    ],
)
def test_repair_reports_message_that_was_not_sent(world: InMemoryStack, what: Repair) -> None:
    world.outbox.fails_at = frozenset({0})
    outcome = repair_job(world, what)
    assert isinstance(outcome, Repaired)
    assert "the queue rejected the message" in str(outcome.details)


@pytest.mark.parametrize("name", ["worker", "reconciler", "producer", "publisher", "dead letters"])
def test_operator_named_like_component_is_distinguished(name: str) -> None:
    world = world_with_declined_job()

    repair_job(world, Repair.RESUBMIT, actor=name)

    shown = timeline(world.job(KEY))
    assert (shown[0].actor_name, shown[-1].actor_name) == ("worker", f"{name} (operator)")
    assert timeline(world.job(JobKey(f"{KEY}:2")))[0].actor_name == f"{name} (operator)"


def test_lookup_of_review_conflicts_when_order_is_missing() -> None:
    world = world_with_review_job()
    world.rows.clear()

    outcome = repair_job(world, Repair.LOOK_UP)

    assert isinstance(outcome, BusinessRowConflict)
    assert outcome.reason.endswith(": fix the business rows first")


@pytest.mark.parametrize("what", [Repair.LOOK_UP, Repair.REOPEN])
def test_repair_shows_current_row_when_it_changes_meanwhile(what: Repair) -> None:
    world = (
        world_with_unknown_job()
        if what is Repair.LOOK_UP
        else world_with_review_job(ProviderFault.TIMEOUT_BEFORE)
    )
    version, store = world.job(KEY).version, world.store
    once = iter(["meanwhile"])

    def somebody_notes() -> None:
        for reason in once:
            row, now = store.jobs[KEY], world.clock.now()
            store.jobs[KEY] = row.apply(Event.NOTE, now=now, actor="bob", reason=reason)

    world.store = InterruptingPort(store, "get", somebody_notes)
    outcome = world.repairer().repair(make_request(what, version))

    assert isinstance(outcome, StaleVersion)
    assert outcome.current.evidence[-1].reason == "meanwhile"


def test_repair_shows_last_known_row_when_it_is_deleted() -> None:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)
    before, store = world.job(KEY), world.store
    world.store = InterruptingPort(store, "get", store.jobs.clear)

    outcome = world.repairer().repair(make_request(Repair.REOPEN, before.version))

    assert outcome == StaleVersion(before)


@pytest.mark.parametrize("deleted", [True, False])
def test_lookup_reports_change_when_job_ends_meanwhile(*, deleted: bool) -> None:
    world = world_with_unknown_job()
    before, store = world.job(KEY), world.store

    def another_ends_it() -> None:
        ended = replace(before, version=9, status=Status.FINISHED, due_at=None)
        store.jobs.clear()
        if not deleted:
            store.jobs[KEY] = ended

    world.store = InterruptingPort(store, "swap", another_ends_it)
    outcome = world.repairer().repair(make_request(Repair.LOOK_UP, before.version))

    assert isinstance(outcome, StaleVersion)
    assert outcome.current.status is (Status.UNKNOWN if deleted else Status.FINISHED)


def test_lookup_dry_run_stays_unknown_while_charge_is_pending() -> None:
    world = world_with_unknown_job()
    world.payments.complete("pi_1", status="processing")

    outcome = repair_job(world, Repair.LOOK_UP, dry_run=True)

    assert isinstance(outcome, Repaired)
    assert "business rows" not in str(outcome.details)
    assert outcome.after.status is Status.UNKNOWN


def make_request(what: Repair, version: int) -> RepairRequest:
    return RepairRequest(key=KEY, repair=what, version=version, reason="a call", actor="ada")


def finished_world() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    world.run(charge_message())
    return world


def test_lookup_reads_our_own_refund_as_a_note() -> None:
    world = finished_world()
    world.run(world.request_refund())

    outcome = repair_job(world, Repair.LOOK_UP)

    assert isinstance(outcome, Repaired)
    assert str(outcome.details) == (
        "Stripe lookup: succeeded, changed later, ch_1 was charged and refunded"
    )
    assert (world.job(KEY).status, world.alerts.sent) == (Status.FINISHED, [])
    assert world.job(KEY).evidence[-1].event is Event.NOTE
    (verdict,) = world.inspector().search("18452").verdicts
    assert (verdict.certain, verdict.text) == (
        True,
        "charged once, 12.50 EUR on 16 Nov 2026; 12.50 EUR refunded",
    )


@pytest.mark.parametrize("ref", ["pi_1", "pi_gone"], ids=["disputed", "absent"])
def test_dispute_or_absence_does_not_contradict_a_finished_charge(ref: str) -> None:
    world = finished_world()
    world.payments.complete("pi_1", status="disputed")
    world.store.jobs[KEY] = replace(world.job(KEY), provider_ref=ref)

    assert isinstance(repair_job(world, Repair.LOOK_UP), Repaired)

    assert (world.job(KEY).status, world.job(KEY).evidence[-1].event) == ("finished", Event.NOTE)


@pytest.mark.parametrize("status", ["canceled", "declined"])
def test_charge_that_failed_later_needs_review_and_alerts(status: str) -> None:
    world = finished_world()
    world.payments.complete("pi_1", status=status)

    outcome = repair_job(world, Repair.LOOK_UP)

    assert isinstance(outcome, Repaired)
    job = world.job(KEY)
    assert (job.status, job.expires_at) == (Status.NEEDS_REVIEW, None)
    assert world.order()["status"] == "paid", "the shop decides what it does about its order"
    world.reconcile(KEY)
    assert len(world.alerts.sent) == 1


@pytest.mark.parametrize("status", ["canceled", "declined"])
def test_charge_that_failed_later_needs_review_although_its_order_changed(status: str) -> None:
    world = finished_world()
    world.payments.complete("pi_1", status=status)
    world.rows.put("orders", {"order_id": "18452"}, {**world.order(), "customer_id": "customer_8"})

    assert isinstance(repair_job(world, Repair.LOOK_UP), Repaired)

    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_settlement_that_is_declined_later_needs_review() -> None:
    world = InMemoryStack()
    account = BraintreeAccount(now=world.clock.now)
    world.other_payments = {"braintree": account.client}
    world.add_order(payment_provider="braintree")
    assert is_finished(world.run(charge_message()))
    account.model.set_status(account.refs[0], "settlement_declined")

    assert isinstance(repair_job(world, Repair.LOOK_UP), Repaired)

    job = world.job(KEY)
    assert job.status is Status.NEEDS_REVIEW
    assert "settlement_declined" in str(job.last_error)
