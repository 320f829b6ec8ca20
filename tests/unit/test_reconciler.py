"""The reconciler looks up, writes one outcome, and is harmless when it runs twice."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.effect_outcomes import Json, Prepared, Succeeded
from oncely.core.errors import UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.job_type import AlreadyResolved
from oncely.core.keys import IdempotencyKey, JobKey, job_key
from oncely.core.lifecycle import Event, Status
from oncely.jobs.sync_push import SyncPush
from tests.support.crash_points import (
    CrashingPort,
    CrashPlan,
    InterruptingPort,
    SimulatedCrashError,
)
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished
from tests.support.provider_fault import ProviderFault
from tests.unit.report_job import ReportBuild, report_message
from tests.unit.samples import make_job

KEY = "payment.charge:order_18452"


def world_with_unknown_job(*, charged: bool = True) -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    fault = ProviderFault.TIMEOUT_AFTER if charged else ProviderFault.TIMEOUT_BEFORE
    world.payments.fail_next("execute", fault)
    world.run(charge_message())
    return world


def crash_worker(world: InMemoryStack, step: str = "execute", *, after: bool = True) -> None:
    mortal = CrashingPort(world.payments, CrashPlan(crash_at=step, crash_after=after))
    with pytest.raises(SimulatedCrashError):
        world.run(charge_message(), runner=world.runner(provider=mortal))


def world_crashed_after_charge() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    crash_worker(world)
    return world


def test_crash_after_charge_is_resolved_after_lease_expires() -> None:
    world = world_crashed_after_charge()
    world.clock.advance(hours=1)

    done = world.reconcile(KEY)

    assert (done.from_status, done.to_status) == (Status.STARTED, Status.FINISHED)
    assert world.payments.charges == ["pi_1"]
    assert world.order()["charge_id"] == "ch_1"


def test_leased_job_is_left_alone() -> None:
    world = world_crashed_after_charge()
    assert world.reconcile(KEY).outcome == "nothing"
    assert world.job(KEY).status is Status.STARTED


def test_reconciler_only_reads_from_provider() -> None:
    world = world_with_unknown_job()
    world.payments.forget_calls()
    world.run_until_idle(KEY)
    assert {step for step, _ in world.payments.calls} == {"find"}


def test_each_transition_is_evidence_with_its_reason_and_actor() -> None:
    world = world_with_unknown_job()

    world.reconcile(KEY)

    last = world.job(KEY).evidence[-1]
    assert (last.from_status, last.to_status) == (Status.UNKNOWN, Status.FINISHED)
    assert last.actor == "reconciler"
    assert "12.50 EUR" in last.reason


def test_absence_counts_only_after_last_possible_send(world: InMemoryStack) -> None:
    crash_worker(world, after=False)
    lease_over = world.job(KEY).lease_until
    assert lease_over is not None
    world.clock.time = lease_over + timedelta(seconds=1)
    early = world.reconcile(KEY)
    world.clock.time = world.job(KEY).due_at or world.clock.time

    later = world.reconcile(KEY)

    assert early.to_status is Status.UNKNOWN
    assert world.clock.time >= lease_over + timedelta(seconds=10)
    assert later.to_status is Status.READY
    assert world.job(KEY).key_number == 2


def test_unprepared_payment_is_resent_at_once_after_crash(world: InMemoryStack) -> None:
    crash_worker(world, "prepare", after=False)
    world.clock.advance(hours=1)

    done = world.reconcile(KEY)
    outcome = world.run(world.outbox.sent.pop())

    assert done.to_status is Status.READY
    assert is_finished(outcome)
    assert world.payments.charges == ["pi_1"]


@pytest.mark.parametrize("crashes", [False, True])
def test_absent_payment_is_sent_in_same_step_after_timeout(*, crashes: bool) -> None:
    """After a crash between the write and the send, the row's due time resends the message."""
    world = world_with_unknown_job(charged=False)
    world.clock.advance(minutes=5)
    if crashes:
        world.outbox.fails_at = frozenset({0})

    assert world.reconcile(KEY).to_status is Status.READY
    assert len(world.outbox.sent) == (not crashes)
    if crashes:
        world.outbox.fails_at = frozenset()
        world.clock.time = world.job(KEY).due_at or world.clock.time
        world.reconcile(KEY)

    assert is_finished(world.run(world.outbox.sent.pop()))
    assert len(world.payments.charges) == 1


def test_dry_run_reports_outcome_and_writes_nothing() -> None:
    world = world_crashed_after_charge()
    world.clock.advance(hours=1)
    before: JobRow = world.job(KEY)
    order = world.order()

    assert world.reconcile(KEY, dry_run=True).to_status is Status.FINISHED
    assert world.job(KEY) == before
    assert world.order() == order
    assert world.outbox.sent == []
    assert world.alerts.sent == []


def test_concurrent_sweeps_write_one_outcome() -> None:
    world = world_with_unknown_job()
    outcomes: list[str] = []
    provider = world.payments

    def another_sweep() -> None:
        world.payments = provider
        outcomes.append(world.reconcile(KEY).outcome)

    world.payments = InterruptingPort(provider, "lookup", another_sweep)

    done = world.reconcile(KEY)

    # The second finds what it would write, as after a lost response.
    assert (outcomes, done.outcome) == (["finished"], "finished")
    assert world.job(KEY).status is Status.FINISHED
    assert [entry.event for entry in world.job(KEY).evidence].count(Event.CONFIRM) == 1


def test_sweep_does_nothing_when_another_resolves_job_first() -> None:
    world = world_crashed_after_charge()
    world.clock.advance(hours=1)
    seen: list[str] = []
    slow: Any = InterruptingPort(
        world.store, "get", lambda: seen.append(world.reconcile(KEY).outcome)
    )

    done = replace(world.reconciler(), store=slow).resolve(JobKey(KEY))

    assert seen == ["finished"]
    assert done.outcome == "nothing"
    assert [entry.event for entry in world.job(KEY).evidence].count(Event.CONFIRM) == 1


@pytest.mark.parametrize("changed", [False, True])
def test_lost_message_is_resent_if_values_agree(world: InMemoryStack, *, changed: bool) -> None:
    world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())
    if changed:
        world.add_order(amount=9900)
    world.clock.time = world.job(KEY).due_at or world.clock.time

    assert world.reconcile(KEY).to_status is (Status.NEEDS_REVIEW if changed else Status.READY)
    assert len(world.outbox.sent) == int(not changed)
    assert changed or (world.job(KEY).due_at or world.clock.time) > world.clock.time


class _NaturalReport(ReportBuild):
    def precheck(self) -> AlreadyResolved[None]:
        return AlreadyResolved(outcome=Succeeded("built before"), facts=None)


def test_lost_message_is_resent_without_values_to_compare() -> None:
    world = InMemoryStack(contracts=(_NaturalReport,))
    world.enqueuer().enqueue(report_message("t1"))
    key = job_key("report.build", "t1")
    world.store.jobs[key] = replace(world.job(key), fingerprint="of an earlier claim")
    world.outbox.sent.clear()
    world.clock.advance(hours=1)

    assert (world.reconcile(key).outcome, len(world.outbox.sent)) == ("ready", 1)
    assert is_finished(world.run(world.outbox.sent.pop()))


def test_job_needs_review_when_its_type_is_not_deployed() -> None:
    world = world_with_unknown_job()
    world.contracts = ()
    assert world.reconcile(KEY).to_status is Status.NEEDS_REVIEW
    assert world.alerts.sent


def test_review_alert_is_retried_after_delivery_failure() -> None:
    world = InMemoryStack()
    world.alerts.fails = True
    world.run_to_review()
    assert world.reconcile(KEY).outcome == "nothing"
    world.alerts.fails = False
    world.clock.time = world.job(KEY).due_at or world.clock.time

    assert world.reconcile(KEY).outcome == "needs_review"
    assert len(world.alerts.sent) == 1
    assert world.job(KEY).due_at is None
    assert world.reconcile(KEY).outcome == "nothing"


def test_review_alerts_once() -> None:
    world = InMemoryStack()  # without an order
    world.run(charge_message())
    world.clock.advance(hours=1)
    world.reconcile(KEY)

    assert len(world.alerts.sent) == 1


@pytest.mark.parametrize("became", ["succeeded", "declined"])
@pytest.mark.parametrize(
    "order", [{"amount": 9900}, {"customer_id": "customer_8", "payment_customer": "cus_8"}]
)
def test_changed_order_needs_review(became: str, order: dict[str, Any]) -> None:
    world = world_with_unknown_job(charged=False)
    world.payments.complete("pi_1", status=became)
    world.add_order(**order)
    dry = world.reconcile(KEY, dry_run=True)
    assert (dry.to_status, dry.needs_alert) == (Status.NEEDS_REVIEW, False)
    assert world.alerts.sent == []

    assert world.reconcile(KEY).to_status is Status.NEEDS_REVIEW
    assert world.order()["status"] == "payment_pending"
    (alert,) = world.alerts.sent
    assert "changed" in alert.text


def test_two_charges_for_one_job_need_review() -> None:
    world = world_with_unknown_job()
    payment = world.payments.intents["pi_1"].payment
    second = world.payments.prepare(payment, idempotency_key=IdempotencyKey("made:elsewhere"))
    assert isinstance(second, Prepared)
    world.payments.complete(second.ref, status="succeeded")

    assert world.reconcile(KEY).to_status is Status.NEEDS_REVIEW
    assert "pi_2" in world.alerts.sent[0].text
    assert world.order()["status"] == "payment_pending"


def test_lookups_back_off_through_outage_without_escalation() -> None:
    world = world_with_unknown_job()
    began = world.clock.now()
    world.payments.fail_next("lookup", *[ProviderFault.TIMEOUT_BEFORE] * 100)
    asked = 0
    while world.clock.now() < began + timedelta(minutes=30):
        assert world.reconcile(KEY).lookup_failed
        asked += 1
        world.clock.time = world.job(KEY).due_at or world.clock.time
    world.payments.faults.clear()

    assert world.reconcile(KEY).to_status is Status.FINISHED
    assert asked < 10  # with growing intervals
    assert world.alerts.sent == []


def test_resolution_reports_stored_review_reason() -> None:
    world = world_with_unknown_job()
    world.add_order(status="paid", charge_id="ch_from_elsewhere")

    done = world.reconcile(KEY)

    assert done.reason == world.job(KEY).last_error
    assert "a business write failed" in done.reason


def test_orphaned_outcome_needs_alert() -> None:
    world = world_with_unknown_job()
    world.payments = InterruptingPort(world.payments, "lookup", lambda: world.store.expire(KEY))

    done = world.reconciler().resolve(JobKey(KEY))

    assert (done.outcome, done.needs_alert) == ("gone", True)
    assert "charged 12.50 EUR" in done.reason
    assert world.store.get(JobKey(KEY)) is None


def test_late_decline_fails_job_and_order(world: InMemoryStack) -> None:
    world.payments.processes = True
    world.run(charge_message())
    world.payments.complete("pi_1", status="declined")
    world.clock.advance(minutes=2)

    done = world.reconcile(KEY)
    world.run(world.outbox.sent.pop())

    assert done.to_status is Status.READY
    assert world.job(KEY).status is Status.FAILED
    assert world.order()["status"] == "payment_failed"


def test_early_absence_stays_unknown_when_lookup_is_slow() -> None:
    world = world_with_unknown_job(charged=False)
    provider = world.payments
    world.payments = InterruptingPort(provider, "lookup", lambda: world.clock.advance(minutes=1))
    assert world.reconcile(KEY).to_status is Status.UNKNOWN


def test_job_is_due_later_when_publishing_fails(world: InMemoryStack) -> None:
    world.run(charge_message())
    world.clock.advance(hours=1)
    world.outbox.fails_at = frozenset({0})

    with pytest.raises(UnavailableError):
        world.reconcile(KEY)

    assert (world.job(KEY).due_at or world.clock.now()) > world.clock.now()


def test_ready_job_with_broken_record_escalates_at_age_limit() -> None:
    world = InMemoryStack(contracts=(SyncPush,))
    world.rows.put("records", {"record_id": "app#1"}, {"source": "app"})
    key = job_key("sync.push", "hubspot", "app#1", 1)
    record: dict[str, Json] = {"target": "hubspot", "record_id": "app#1", "version": 1}
    message: dict[str, Json] = {"job": "sync.push", "v": 1, **record}
    world.store.create(
        make_job(job_key=key, job_type="sync.push", status=Status.READY, message=message, fence=0)
    )
    world.clock.advance(hours=25)

    assert world.reconcile(key).to_status is Status.NEEDS_REVIEW


def test_unreadable_job_alert_is_retried_after_failure() -> None:
    world = world_with_unknown_job()
    world.contracts = ()
    world.alerts.fails = True
    world.reconcile(KEY)
    world.alerts.fails = False
    world.clock.advance(hours=1)

    assert world.reconcile(KEY).outcome == "needs_review"
    assert len(world.alerts.sent) == 1
