"""An ended job is published before its row may expire, and every step is safe to repeat."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any, cast

import pytest

from oncely.contracts.job import AnyJob
from oncely.core.decide import on_late_outcome
from oncely.core.due import hold_for_sweep
from oncely.core.effect_outcomes import Declined
from oncely.core.ended_jobs import (
    MONEY_RETENTION,
    PROOF_RETENTION,
    PUBLISH_GRACE,
    awaits_publishing,
)
from oncely.core.errors import UnavailableError
from oncely.core.job_row import JobRow, operator_actor
from oncely.core.keys import JobKey, job_key
from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair
from oncely.core.text import format_time
from oncely.history.lines import HistoryLine, change_line
from oncely.history.restore import restore_row
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.operate.repair_request import Repaired
from oncely.publish.publisher import MAX_CONCURRENCY, EventBus
from tests.support.crash_points import (
    CrashingPort,
    CrashPlan,
    InterruptingPort,
    SimulatedCrashError,
)
from tests.support.in_memory_stack import ROW_RETENTION, InMemoryStack, charge_message
from tests.support.outcomes import is_duplicate
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import repair_job, world_with_review_job
from tests.support.stored_rows import new_account
from tests.unit.samples import NOW, TICK

KEY = "payment.charge:order_18452"
HOUR = timedelta(hours=1)
CONTACT_SOURCE = {"source": "hubspot", "source_id": "1", "event_id": "1"}
CONTACT = {"job": "sync.contact", "v": 1, **CONTACT_SOURCE}


class PublishedEventCharge(PaymentCharge):
    publishes_events = True


OTHERS = tuple(one for one in SHIPPED_JOBS if one is not PaymentCharge)
PUBLISHED_CONTRACTS: tuple[type[AnyJob], ...] = (PublishedEventCharge, *OTHERS)


def world_with_finished_job(*, publishes: bool = False, declines: bool = False) -> InMemoryStack:
    world = InMemoryStack(contracts=PUBLISHED_CONTRACTS if publishes else SHIPPED_JOBS)
    world.add_order()
    world.payments.declines = declines
    world.run(charge_message())
    return world


def publish_job(world: InMemoryStack) -> bool:
    return world.publisher().publish(world.job(KEY).job_key)


def test_later_writes_give_an_event_no_second_identity() -> None:
    """A note between two deliveries of the event; a consumer drops the second one."""
    world = world_with_finished_job(publishes=True)
    ended = world.job(KEY)
    noted = ended.apply(Event.NOTE, now=ended.updated_at + TICK, actor="ada", reason="seen")
    world.store.swap(ended, noted)

    first, second = map(identity_of, (ended, noted))

    assert first == second == (KEY, ended.version, format_time(ended.updated_at))


def test_second_end_of_a_job_is_another_event() -> None:
    world = world_with_finished_job(publishes=True)
    first = world.job(KEY)
    review = first.apply(Event.CONTRADICT, now=NOW, actor="ada", reason="it was refunded")
    world.store.swap(first, review)
    repair_job(world, Repair.MARK_FINISHED, reference="pi_1")

    second = world.job(KEY)
    assert second.ended_version == review.version + 1
    assert identity_of(first) != identity_of(second)


def test_restored_end_keeps_the_identity_of_its_event() -> None:
    """It was not published yet, and an operator noted something. The table was lost twice."""
    world = world_with_finished_job(publishes=True)
    ended = world.job(KEY)
    noted = ended.apply(Event.NOTE, now=NOW + TICK, actor=operator_actor("ada"), reason="seen")

    restored = restored_row(restored_row(noted, at=NOW + HOUR), at=NOW + 2 * HOUR)
    held = hold_for_sweep(restored, NOW + 3 * HOUR, jitter=0)

    assert awaits_publishing(held)
    assert identity_of(restored) == identity_of(held) == identity_of(ended)


def test_erasure_leaves_the_identity_of_an_event_in_the_history() -> None:
    ended = replace(world_with_finished_job(publishes=True).job(KEY), erasure_requested_at=NOW)
    assert identity_of(restored_row(ended, at=NOW + HOUR)) == identity_of(ended)


def restored_row(row: JobRow, *, at: datetime) -> JobRow:
    """The row as a restore writes it from the history, into a table that lost it."""
    line = HistoryLine.from_dict(change_line(None, row, generation="t1").to_dict())
    restored = restore_row(None, line, deployment="test", now=at)
    assert restored is not None
    return restored


def identity_of(job: JobRow) -> tuple[str, int, str]:
    account = new_account()
    account.events.buses.add("bus")
    EventBus(cast("Any", account.events), "bus").publish(job)
    (event,) = account.events.events
    detail = json.loads(event["Detail"])
    return detail["job_key"], detail["version"], detail["at"]


def test_row_expires_after_receipt_is_sent() -> None:
    world = world_with_finished_job()
    assert world.job(KEY).expires_at is None

    publish_job(world)

    job = world.job(KEY)
    assert len(world.outbox.sent) == 1
    assert (job.due_at, job.expires_at) == (None, world.clock.now() + MONEY_RETENTION)
    assert world.bus.published == [], "events are opt-in"


@pytest.mark.parametrize("declines", [False, True])
def test_event_is_published_when_contract_opts_in(*, declines: bool) -> None:
    world = world_with_finished_job(publishes=True, declines=declines)
    assert world.job(KEY).expires_at is None

    publish_job(world)

    status = Status.FAILED if declines else Status.FINISHED
    assert [(one.job_key, one.status) for one in world.bus.published] == [(KEY, status)]
    assert world.job(KEY).expires_at is not None


def test_declined_job_expires_without_publishing() -> None:
    world = world_with_finished_job(declines=True)

    job = world.job(KEY)
    assert (job.status, job.due_at) == (Status.FAILED, None)
    assert job.expires_at == world.clock.now() + MONEY_RETENTION
    assert not publish_job(world)


def test_natural_effect_expires_after_row_retention(world: InMemoryStack) -> None:
    world.run(CONTACT)
    (job,) = world.store.jobs.values()
    assert job.expires_at == world.clock.now() + ROW_RETENTION


def test_receipt_expires_after_default_retention() -> None:
    world = world_with_finished_job()
    publish_job(world)
    world.run(world.outbox.sent[0])
    assert world.job("receipt.send:order_18452").expires_at == world.clock.now() + PROOF_RETENTION


def test_payment_expires_without_receipt_when_mail_is_off() -> None:
    world = InMemoryStack(mail=None)
    world.add_order()

    world.run(charge_message())

    assert world.job(KEY).due_at is None
    assert world.job(KEY).expires_at is not None


def test_job_finished_by_reconciler_stays_due_for_receipt(world: InMemoryStack) -> None:
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())

    world.run_until_idle(KEY)

    job = world.job(KEY)
    assert (job.status, job.expires_at) == (Status.FINISHED, None)
    assert job.due_at is not None


def test_job_finished_by_operator_becomes_due_for_receipt() -> None:
    world = world_with_review_job()
    assert world.job(KEY).due_at is None

    repair_job(world, Repair.MARK_FINISHED, reference="ch_1")

    job = world.job(KEY)
    assert job.status is Status.FINISHED
    assert (job.due_at, job.expires_at) == (world.clock.now() + PUBLISH_GRACE, None)


def test_job_finishes_and_stays_due_when_follow_ups_fail() -> None:
    class Broken(PaymentCharge):
        def follow_ups(self, job: JobRow) -> tuple[()]:
            raise KeyError(job.job_key)

    world = InMemoryStack(contracts=(Broken,))
    world.add_order()

    world.run(charge_message())

    job = world.job(KEY)
    assert (job.status, job.expires_at) == (Status.FINISHED, None)
    assert job.due_at is not None


def test_replay_is_duplicate_until_row_expires() -> None:
    world = world_with_finished_job()
    publish_job(world)
    expiry = world.job(KEY).expires_at
    assert expiry is not None
    world.clock.time = expiry

    assert is_duplicate(world.run(charge_message()))
    assert world.payments.charges == ["pi_1"]


def test_publishing_twice_changes_nothing() -> None:
    world = world_with_finished_job(publishes=True)
    publish_job(world)
    before = world.job(KEY)

    assert not publish_job(world)
    assert world.job(KEY) == before
    assert len(world.bus.published) == 1


def test_review_is_not_published_and_never_expires() -> None:
    world = InMemoryStack(contracts=PUBLISHED_CONTRACTS)
    world.run(charge_message())

    publish_job(world)

    assert world.bus.published == []
    assert world.job(KEY).expires_at is None


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("port", ["bus", "outbox", "store"])
def test_sweep_completes_publishing_after_crash_at_any_step(port: str, *, after: bool) -> None:
    world = world_with_finished_job(publishes=True)
    working = getattr(world, port)
    call = 2 if port == "store" else 1
    setattr(world, port, CrashingPort(working, CrashPlan(crash_at=call, crash_after=after)))
    with pytest.raises(SimulatedCrashError):
        publish_job(world)
    setattr(world, port, working)
    died = world.job(KEY)
    assert died.expires_at is None or world.outbox.sent
    world.clock.advance(hours=1)

    world.reconcile(KEY)

    assert world.job(KEY).expires_at is not None
    assert world.bus.published
    assert any("receipt.send" in body for body in world.outbox.sent)


def test_delayed_publisher_does_not_expire_newer_result() -> None:
    world = world_with_finished_job(publishes=True)
    bus, job = world.bus, world.job(KEY)

    def contradict_and_resolve() -> None:
        world.bus = bus
        decision = on_late_outcome(job, Declined("it was never captured", code="gone"), fence=1)
        world.store.swap(job, decision.apply_to(job, now=world.clock.now(), actor="worker"))
        world.add_order(status="cancelled")
        world.payments.complete("pi_1", status="canceled")
        assert isinstance(repair_job(world, Repair.MARK_FAILED), Repaired)

    world.bus = InterruptingPort(bus, "publish", contradict_and_resolve)  # type: ignore[assignment]  # the same port

    assert not publish_job(world)

    assert world.job(KEY).status is Status.FAILED
    assert world.job(KEY).expires_at is None, "its own event is still owed"


def world_with_many_jobs(number: int) -> tuple[InMemoryStack, list[JobKey]]:
    world = InMemoryStack(contracts=PUBLISHED_CONTRACTS)
    for one in range(number):
        world.add_order(order_id=str(one))
        world.run(charge_message(order_id=str(one)))
    return world, [job_key("payment.charge", str(one), prefix="order_") for one in range(number)]


def test_batch_is_published_concurrently() -> None:
    world, keys = world_with_many_jobs(MAX_CONCURRENCY)
    together = Barrier(MAX_CONCURRENCY)
    # Each waits for all the others, so sequential publishing would block forever.
    world.bus = InterruptingPort(world.bus, "publish", lambda: together.wait(timeout=10))  # type: ignore[assignment]  # the same port

    assert world.publisher().publish_batch(keys) == {}

    assert all(world.job(key).expires_at is not None for key in keys)


def test_failed_job_is_reported_and_others_are_published() -> None:
    world, keys = world_with_many_jobs(3)
    publish_one = world.bus.publish

    def fail_on_second(job: JobRow) -> None:
        if job.job_key == keys[1]:
            raise ValueError("poisoned")
        publish_one(job)

    world.bus.publish = fail_on_second  # type: ignore[method-assign]  # a fault of this test

    assert list(world.publisher().publish_batch(keys)) == [keys[1]]
    assert [world.job(key).expires_at is not None for key in keys] == [True, False, True]


def test_job_listed_twice_in_batch_is_published_once() -> None:
    world, keys = world_with_many_jobs(1)
    world.publisher().publish_batch([*keys, *keys])
    assert len(world.bus.published) == 1


def test_ended_job_stays_due_when_follow_up_is_not_sent() -> None:
    world = world_with_finished_job()
    world.outbox.fails_at = frozenset({0})

    with pytest.raises(UnavailableError, match="did not accept a follow-up"):
        publish_job(world)

    assert world.job(KEY).due_at is not None
    assert world.job(KEY).expires_at is None
