"""A message before its business rows waits on its row; a review that sent nothing is re-opened."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.decide import FIRST_WAIT, MIN_ROW_WAIT
from oncely.core.errors import NotConfiguredError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.outcomes import NeedsReview, Parked
from oncely.gates.gate import PauseAction
from oncely.operate.job_view import timeline
from oncely.reconcile.find_due_work import SweepRequest
from oncely.run.process_batch import Ack, Nack, action_for
from tests.support.crash_points import (
    CrashingPort,
    CrashPlan,
    InterruptingPort,
    SimulatedCrashError,
)
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import (
    awaits_resolution,
    is_conflict,
    is_duplicate,
    is_finished,
    is_held,
    waits_for_rows,
)

KEY = "payment.charge:order_18452"
RECEIPT = {"job": "receipt.send", "v": 1, "order_id": "18452"}
RECEIPT_KEY = "receipt.send:order_18452"
PUSH = {"job": "sync.push", "v": 1, "target": "hubspot", "record_id": "hubspot#1", "version": 7}
PUSH_KEY = "sync.push:hubspot:hubspot#1:7"
GRACE = timedelta(minutes=15)


def sweep_until(world: InMemoryStack, duration: timedelta, *, every: int = 1) -> None:
    """Sweep each minute, or less often, and run every message that a sweep sends."""
    ends = world.clock.now() + duration
    while world.clock.now() < ends:
        world.clock.advance(minutes=every)
        for item in world.finder().find(SweepRequest()).items:
            world.reconcile(item.key)
        while world.outbox.sent:
            world.run(world.outbox.sent.pop(0))


def world_in_review(*, alerts_fail: bool = False) -> InMemoryStack:
    world = InMemoryStack()
    world.alerts.fails = alerts_fail
    world.run(charge_message())
    sweep_until(world, GRACE + MIN_ROW_WAIT)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    return world


def put_record(world: InMemoryStack, version: int) -> None:
    row = {"version": version, "record": {"properties": {"email": "7@e.org"}}}
    world.rows.put("records", {"record_id": "hubspot#1"}, row)


def test_message_that_a_review_waits_for_is_kept_during_pause() -> None:
    world = world_in_review()
    world.add_order()
    switch = world.app().pause_switch
    switch.change("stripe", PauseAction.PAUSE, actor="ada", reason="an outage")
    deadline = world.clock.now() + timedelta(minutes=1)

    kept = world.run(charge_message())
    last = world.runner().run(json.dumps(charge_message()), deadline=deadline, nack=False)

    assert is_held(kept)
    assert kept.redeliver
    assert is_conflict(last)
    assert last.alerted  # operators resend it from the rejects
    switch.change("stripe", PauseAction.RESUME, actor="ada", reason="it is over")
    world.clock.advance(minutes=1)
    assert is_finished(world.run(charge_message()))


def test_message_that_a_review_waits_for_is_kept_while_the_secret_is_missing() -> None:
    world = world_in_review()
    world.add_order()

    def missing(_name: str) -> str:
        raise NotConfiguredError("the secret is empty")

    kept = world.run(charge_message(), runner=world.runner(secret=missing))

    assert isinstance(kept, Parked)
    assert kept.redeliver
    assert is_finished(world.run(charge_message()))


def test_early_message_leaves_row_that_says_what_it_waits_for() -> None:
    world = InMemoryStack()

    outcome = world.run(charge_message())

    job = world.job(KEY)
    assert waits_for_rows(outcome)
    assert (job.status, job.attempts, job.fence) == (Status.READY, 0, 0)
    assert job.last_error == "waits for order 18452 to exist, until 2026-11-16 03:15 UTC"
    headline = world.inspector().get(JobKey(KEY)).headline  # type: ignore[union-attr]  # it is there
    assert headline == f"Not charged yet: {job.last_error}."
    assert (world.alerts.sent, world.payments.calls) == ([], [])


def test_only_first_wait_costs_receive() -> None:
    world = InMemoryStack()

    first = world.run(charge_message())
    world.clock.time += FIRST_WAIT
    again = world.run(charge_message())

    assert action_for(first, near_receive_limit=False) == Nack(world.clock.now())
    assert action_for(first, near_receive_limit=True) == Ack()
    assert action_for(again, near_receive_limit=False) == Ack(), "the row resends it"
    assert world.job(KEY).due_at == world.job(KEY).created_at + MIN_ROW_WAIT


def test_order_that_comes_during_first_wait_is_charged_at_once() -> None:
    world = InMemoryStack()
    world.run(charge_message())
    world.add_order()
    world.clock.time += FIRST_WAIT
    assert is_finished(world.run(charge_message()))


def test_waits_double_and_review_comes_at_end_of_grace_period() -> None:
    world = InMemoryStack()
    world.run(charge_message())
    began, waits = world.clock.now(), []
    while (due := world.job(KEY).due_at) and world.job(KEY).status is Status.READY:
        waits.append((due - began).total_seconds() / 60)
        world.clock.time = due
        world.reconcile(KEY)

    assert waits == [1, 2, 4, 8, 15]
    job = world.job(KEY)
    assert (job.status, job.awaits_message) == (Status.NEEDS_REVIEW, True)
    assert job.last_error == "waited 15 minutes for order 18452 to exist"
    assert len(world.alerts.sent) == 1
    assert world.outbox.sent == [], "a sweep sends no message that cannot run"


def test_grace_period_begins_with_first_wait() -> None:
    world = InMemoryStack()
    world.enqueuer().enqueue(charge_message())
    world.clock.advance(hours=1)
    began = world.clock.now()
    for passed in (timedelta(0), GRACE / 3, GRACE - timedelta(seconds=1)):
        world.clock.time = began + passed
        world.run(charge_message())
        assert (world.job(KEY).status, world.job(KEY).since) == (Status.READY, began)
    world.clock.time = began + GRACE
    world.run(charge_message())
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_wait_for_another_thing_is_not_part_of_the_grace_period() -> None:
    world = InMemoryStack()
    world.enqueuer().enqueue(charge_message())
    row, since = world.job(KEY), world.clock.now()
    world.store.jobs[JobKey(KEY)] = replace(row, waits_for=WaitKind.SECRET, since=since)
    world.clock.advance(minutes=20)

    assert waits_for_rows(world.run(charge_message()))

    assert (world.job(KEY).status, world.job(KEY).since) == (Status.READY, world.clock.now())


def test_producers_row_waits_and_shows_reason_at_once() -> None:
    world = InMemoryStack()
    world.enqueuer().enqueue(charge_message())
    world.run(world.outbox.sent.pop())
    assert world.job(KEY).waits_for is WaitKind.BUSINESS_ROW
    world.add_order()
    sweep_until(world, MIN_ROW_WAIT)
    assert world.job(KEY).status is Status.FINISHED


def test_hundred_early_messages_are_charged_once_without_review_or_alert() -> None:
    world = InMemoryStack()
    orders = [str(1000 + number) for number in range(100)]
    for order in orders:
        world.run(charge_message(order))
    sweep_until(world, timedelta(minutes=5))
    for order in orders:
        world.add_order(order)
    sweep_until(world, timedelta(minutes=10))

    assert {job.status for job in world.store.jobs.values()} == {Status.FINISHED}
    assert {world.order(order)["status"] for order in orders} == {"paid"}
    assert len(world.payments.charges) == 100
    assert world.alerts.sent == []


def test_hundred_early_messages_without_orders_are_reviewed_after_grace_period() -> None:
    world = InMemoryStack()
    for number in range(100):
        world.run(charge_message(str(1000 + number)))
    sweep_until(world, GRACE - MIN_ROW_WAIT)
    assert {job.status for job in world.store.jobs.values()} == {Status.READY}
    sweep_until(world, timedelta(minutes=2))
    reviews = [job for job in world.store.jobs.values() if job.status is Status.NEEDS_REVIEW]
    assert len([job for job in reviews if job.awaits_message]) == 100
    assert world.payments.calls == []


@pytest.mark.parametrize("days", [0, 3])
def test_valid_message_takes_job_out_of_review(days: int) -> None:
    world = world_in_review()
    world.clock.advance(days=days)
    world.add_order()

    assert is_finished(world.run(charge_message())), "its age begins anew"

    job = world.job(KEY)
    assert (job.awaits_message, job.fence) == (False, 1)
    (taken,) = (entry for entry in timeline(job) if "claim" in entry.event)
    assert (taken.from_status, taken.to_status) == (Status.NEEDS_REVIEW, Status.STARTED)
    assert len(world.payments.charges) == 1


def test_enqueued_message_reaches_worker_of_job_in_review() -> None:
    """The row is due, but only for its alert: it sends no message."""
    world = world_in_review(alerts_fail=True)
    assert world.job(KEY).due_at is not None
    world.add_order()
    enqueued = world.enqueuer().enqueue(charge_message())
    assert (enqueued.created, enqueued.sent, enqueued.conflict) == (False, True, None)
    assert is_finished(world.run(world.outbox.sent.pop()))


def test_message_that_is_still_early_leaves_review_alone() -> None:
    world = world_in_review()
    before = world.job(KEY)
    assert awaits_resolution(world.run(charge_message()))
    assert world.job(KEY) == before


def test_unusable_order_leaves_review_alone() -> None:
    world = world_in_review()
    world.add_order(status="cancelled")
    before = world.job(KEY)
    assert awaits_resolution(world.run(charge_message()))
    assert world.job(KEY) == before


def test_two_messages_take_review_once() -> None:
    world = world_in_review()
    world.add_order()
    store = InterruptingPort(world.store, "claim", lambda: world.run(charge_message()))

    outcome = world.run(charge_message(), runner=world.runner(store=store))

    assert is_duplicate(outcome)
    assert len(world.payments.charges) == 1


def test_resubmission_in_review_still_requires_failed_job() -> None:
    world = InMemoryStack()
    world.run(charge_message(attempt=2))
    sweep_until(world, GRACE + MIN_ROW_WAIT)
    assert world.job(f"{KEY}:2").awaits_message
    world.add_order()
    assert is_conflict(world.run(charge_message(attempt=2)))
    assert world.job(f"{KEY}:2").status is Status.NEEDS_REVIEW
    assert world.payments.calls == []


def test_receipt_waits_for_payment_and_is_sent_once() -> None:
    world = InMemoryStack()
    world.add_order()
    assert waits_for_rows(world.run(RECEIPT))
    assert "waits for order 18452 to be paid" in str(world.job(RECEIPT_KEY).last_error)
    sweep_until(world, timedelta(hours=3))

    world.add_order(status="paid", charge_id="ch_1")
    sweep_until(world, timedelta(minutes=20))

    assert world.job(RECEIPT_KEY).status is Status.FINISHED
    assert len(world.mail.sent) == 1
    assert world.alerts.sent == []


def test_receipt_in_review_after_wait_is_sent_once_when_paid() -> None:
    world = InMemoryStack()
    world.run(RECEIPT)
    sweep_until(world, timedelta(hours=25), every=10)
    assert world.job(RECEIPT_KEY).awaits_message
    world.add_order(status="paid", charge_id="ch_1")
    assert is_finished(world.run(RECEIPT))
    assert is_duplicate(world.run(RECEIPT))
    assert len(world.mail.sent) == 1


def test_receipt_of_worker_that_died_after_sending_is_never_reopened() -> None:
    world = InMemoryStack()
    world.run(RECEIPT)
    world.add_order(status="paid", charge_id="ch_1")
    world.mail = CrashingPort(world.mail, CrashPlan(crash_at="send", crash_after=True))
    with pytest.raises(SimulatedCrashError):
        world.run(RECEIPT)
    world.clock.advance(hours=1)
    world.reconcile(RECEIPT_KEY)
    world.reconcile(RECEIPT_KEY)
    job = world.job(RECEIPT_KEY)
    assert (job.status, job.awaits_message) == (Status.NEEDS_REVIEW, False)

    assert awaits_resolution(world.run(RECEIPT))
    assert len(world.mail.sent) == 1


def test_push_waits_for_its_version() -> None:
    world = InMemoryStack()
    world.run(PUSH)
    assert "waits for record hubspot#1 to exist" in str(world.job(PUSH_KEY).last_error)
    put_record(world, 6)
    sweep_until(world, timedelta(minutes=5))
    assert "to reach version 7; it is at 6" in str(world.job(PUSH_KEY).last_error)

    put_record(world, 7)
    sweep_until(world, timedelta(minutes=5))

    assert world.job(PUSH_KEY).status is Status.FINISHED
    assert world.crm.writes.total() == 1
    assert world.alerts.sent == []


def test_claimed_job_whose_order_is_gone_does_not_wait(world: InMemoryStack) -> None:
    crashing = CrashingPort(world.payments, CrashPlan(crash_at="execute", crash_after=False))
    with pytest.raises(SimulatedCrashError):
        world.run(charge_message(), runner=world.runner(provider=crashing))
    world.clock.advance(hours=1)
    for _ in range(2):
        world.reconcile(KEY)
    assert world.job(KEY).status is Status.READY
    world.rows.clear()

    assert isinstance(world.run(charge_message()), NeedsReview)
    assert not world.job(KEY).awaits_message, "it may have a payment that is not confirmed"
    world.add_order()
    assert awaits_resolution(world.run(charge_message()))


def test_forged_mark_reopens_no_job_that_a_worker_claimed() -> None:
    """A worker ran it, so a payment may exist, despite the mark."""
    world = world_in_review()
    forged = replace(world.job(KEY), fence=1)
    assert forged.awaits_message
    world.store.jobs[JobKey(KEY)] = forged
    world.add_order()

    assert awaits_resolution(world.run(charge_message()))
    assert (world.job(KEY), world.payments.charges) == (forged, [])


def test_worker_that_claims_during_wait_is_not_overwritten() -> None:
    world = InMemoryStack()
    world.run(charge_message())
    world.clock.time += GRACE

    def order_comes_and_is_charged() -> None:
        world.add_order()
        world.run(charge_message())

    world.store = InterruptingPort(world.store, "swap", order_comes_and_is_charged)
    world.run(charge_message())

    job = world.job(KEY)
    assert (job.status, job.awaits_message) == (Status.FINISHED, False)
    assert len(world.payments.charges) == 1


def test_dead_letter_review_is_not_reopened() -> None:
    world = world_in_review()
    job = world.job(KEY)
    reopened = job.apply(Event.REOPEN, now=world.clock.now(), actor="operator:ada", reason="again")
    assert not reopened.awaits_message
    stranded = reopened.apply(
        Event.ESCALATE, now=world.clock.now(), actor="dead letters", reason="dead-lettered again"
    )
    world.store.jobs[JobKey(KEY)] = stranded
    world.add_order()
    assert awaits_resolution(world.run(charge_message()))
    assert world.payments.calls == []


def test_wait_does_not_count_as_age() -> None:
    world = InMemoryStack()
    world.run(RECEIPT)
    sweep_until(world, timedelta(hours=23))
    job = world.job(RECEIPT_KEY)
    assert world.clock.now() - job.age_starts_at(world.clock.now()) < timedelta(hours=1)
    assert len(json.dumps([entry.reason for entry in job.evidence])) < 1000, "entries are counted"
