"""The reconciler: asks, writes one outcome, and is harmless when it runs twice."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.contract import Call, Contract, Settled
from oncely.contracts.sync_push import SyncPush
from oncely.domain.answers import Done, Prepared
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job, enqueued
from oncely.domain.keys import JobKey, ProviderKey, job_key, token_key
from oncely.domain.lifecycle import Event, Status
from oncely.domain.writes import Json
from oncely.services.outcomes import Finished
from tests.support.mortal import DiedError, Fate, Meanwhile, Mortal
from tests.support.payments import Fault
from tests.support.world import World, charge
from tests.unit.report_contract import ReportBuild, ReportMessage, report

KEY = "payment.charge:order_18452"


def unknown(*, charged: bool = True) -> World:
    world = World()
    world.add_order()
    fault = Fault.TIMEOUT_AFTER if charged else Fault.TIMEOUT_BEFORE
    world.payments.fails("execute", fault)
    world.run(charge())
    return world


def crashed_after_the_charge() -> World:
    world = World()
    world.add_order()
    mortal = Mortal(world.payments, Fate(call="execute", after=True))
    with pytest.raises(DiedError):
        world.run(charge(), runner=world.runner(provider=mortal))
    return world


def test_crash_after_charge_is_resolved_after_lease_expires() -> None:
    world = crashed_after_the_charge()
    world.clock.move(hours=1)

    done = world.reconcile(KEY)

    assert (done.old, done.new) == (Status.STARTED, Status.FINISHED)
    assert world.payments.charges == ["pi_1"]
    assert world.order()["charge_id"] == "ch_pi_1"


def test_leased_job_is_left_alone() -> None:
    world = crashed_after_the_charge()

    done = world.reconcile(KEY)

    assert done.outcome == "nothing"
    assert world.job(KEY).status is Status.STARTED


def test_reconciler_only_reads_from_provider() -> None:
    world = unknown()
    world.payments.calls.clear()

    world.until_quiet(KEY)

    assert {step for step, _ in world.payments.calls} == {"look_up"}


def test_each_transition_is_evidence_with_its_reason_and_actor() -> None:
    world = unknown()

    world.reconcile(KEY)

    last = world.job(KEY).evidence[-1]
    assert (last.old, last.new, last.actor) == (Status.UNKNOWN, Status.FINISHED, "reconciler")
    assert "12.50 EUR" in last.reason


def test_absence_counts_only_after_last_possible_send() -> None:
    world = World()
    world.add_order()
    mortal = Mortal(world.payments, Fate(call="execute", after=False))
    with pytest.raises(DiedError):
        world.run(charge(), runner=world.runner(provider=mortal))
    lease_over = world.job(KEY).lease_until
    assert lease_over is not None
    world.clock.time = lease_over + timedelta(seconds=1)
    early = world.reconcile(KEY)
    world.clock.time = world.job(KEY).due_at or world.clock.time

    later = world.reconcile(KEY)

    assert early.new is Status.UNKNOWN
    assert world.clock.time >= lease_over + timedelta(seconds=10)
    assert later.new is Status.READY
    assert world.job(KEY).key_number == 2


def test_unprepared_payment_is_resent_at_once_after_crash() -> None:
    world = World()
    world.add_order()
    mortal = Mortal(world.payments, Fate(call="prepare", after=False))
    with pytest.raises(DiedError):
        world.run(charge(), runner=world.runner(provider=mortal))
    world.clock.move(hours=1)

    done = world.reconcile(KEY)
    outcome = world.run(world.outbox.sent.pop())

    assert done.new is Status.READY
    assert isinstance(outcome, Finished)
    assert world.payments.charges == ["pi_1"]


def test_dry_run_reports_outcome_and_writes_nothing() -> None:
    world = crashed_after_the_charge()
    world.clock.move(hours=1)
    before: Job = world.job(KEY)
    order = world.order()

    done = world.reconcile(KEY, dry_run=True)

    assert done.new is Status.FINISHED
    assert world.job(KEY) == before
    assert world.order() == order
    assert world.outbox.sent == []
    assert world.alerts.told == []


def test_concurrent_sweeps_write_one_outcome() -> None:
    world = unknown()
    outcomes: list[str] = []
    provider = world.payments

    def another_sweep() -> None:
        world.payments = provider
        outcomes.append(world.reconcile(KEY).outcome)

    world.payments = Meanwhile(provider, "look_up", another_sweep)

    done = world.reconcile(KEY)

    assert outcomes == ["finished"]
    assert done.outcome == "nothing"
    assert world.job(KEY).status is Status.FINISHED
    assert [entry.event for entry in world.job(KEY).evidence].count(Event.CONFIRM) == 1


def test_sweep_does_nothing_when_another_resolves_job_first() -> None:
    world = crashed_after_the_charge()
    world.clock.move(hours=1)
    outcomes: list[str] = []
    slow = Meanwhile(world.store, "get", lambda: outcomes.append(world.reconcile(KEY).outcome))

    done = replace(world.reconciler(), store=slow).resolve(JobKey(KEY))

    assert outcomes == ["finished"]
    assert done.outcome == "nothing"
    assert [entry.event for entry in world.job(KEY).evidence].count(Event.CONFIRM) == 1


def test_lost_message_is_resent_and_job_is_due_later() -> None:
    world = World()
    world.add_order()
    world.payments.fails("prepare", Fault.REFUSED_CONNECTION)
    world.run(charge())
    world.clock.time = world.job(KEY).due_at or world.clock.time

    done = world.reconcile(KEY)

    assert done.outcome == "ready"
    assert len(world.outbox.sent) == 1
    assert (world.job(KEY).due_at or world.clock.time) > world.clock.time


def test_lost_message_is_not_resent_when_fingerprint_differs() -> None:
    world = World()
    world.add_order()
    world.payments.fails("prepare", Fault.REFUSED_CONNECTION)
    world.run(charge())
    world.add_order(amount=9900)
    world.clock.time = world.job(KEY).due_at or world.clock.time

    done = world.reconcile(KEY)

    assert done.new is Status.NEEDS_REVIEW
    assert world.outbox.sent == []


class _Built(Contract[ReportMessage, None]):
    """A job whose precheck finds the outcome, and no business values to compare."""

    job_type = ReportBuild.job_type
    message = ReportMessage
    terms = ReportBuild.terms
    needs = ReportBuild.needs
    words = ReportBuild.words

    @classmethod
    def key(cls, message: ReportMessage) -> JobKey:
        return ReportBuild.key(message)

    def check(self, message: ReportMessage) -> Settled[None]:
        return Settled(answer=Done("built before"), facts=None)

    def act(self, call: Call[None]) -> Done:
        raise NotImplementedError


def test_lost_message_is_resent_without_values_to_compare() -> None:
    world = World(contracts=(_Built,))
    world.enqueuer().enqueue(report("t1"))
    key = token_key("report.build", "t1")
    world.store.jobs[key] = replace(world.job(key), fingerprint="of an earlier claim")
    world.outbox.sent.clear()
    world.clock.move(hours=1)

    done = world.reconcile(key)

    assert (done.outcome, len(world.outbox.sent)) == ("ready", 1)
    assert isinstance(world.run(world.outbox.sent.pop()), Finished)


def test_job_needs_review_when_its_type_is_not_deployed() -> None:
    world = unknown()
    world.contracts = ()

    done = world.reconcile(KEY)

    assert done.new is Status.NEEDS_REVIEW
    assert world.alerts.told


def test_review_alert_is_retried_after_delivery_failure() -> None:
    world = World()
    world.alerts.broken = True
    world.run(charge())
    assert world.reconcile(KEY).outcome == "nothing"
    world.alerts.broken = False
    world.clock.time = world.job(KEY).due_at or world.clock.time

    done = world.reconcile(KEY)

    assert done.outcome == "needs_review"
    assert len(world.alerts.told) == 1
    assert world.job(KEY).due_at is None
    assert world.reconcile(KEY).outcome == "nothing"


def test_review_alerts_once() -> None:
    world = World()

    world.run(charge())
    world.clock.move(hours=1)
    world.reconcile(KEY)

    assert len(world.alerts.told) == 1


def test_changed_amount_needs_review() -> None:
    world = unknown()
    world.add_order(amount=9900)

    done = world.reconcile(KEY)

    assert done.new is Status.NEEDS_REVIEW
    assert world.order()["status"] == "payment_pending"


@pytest.mark.parametrize("became", ["succeeded", "declined"])
def test_changed_customer_needs_review(became: str) -> None:
    world = unknown(charged=False)
    world.payments.settle("pi_1", status=became)
    world.add_order(customer_id="customer_8", payment_customer="cus_8")

    done = world.reconcile(KEY)

    assert done.new is Status.NEEDS_REVIEW
    assert world.order()["status"] == "payment_pending"
    assert "changed" in world.alerts.told[0].text


def test_two_charges_for_one_job_need_review() -> None:
    world = unknown()
    payment = world.payments.intents["pi_1"].payment
    second = world.payments.prepare(payment, key=ProviderKey("made:elsewhere"))
    assert isinstance(second, Prepared)
    world.payments.settle(second.ref, status="succeeded")

    done = world.reconcile(KEY)

    assert done.new is Status.NEEDS_REVIEW
    assert "pi_2" in world.alerts.told[0].text
    assert world.order()["status"] == "payment_pending"


def test_lookups_back_off_through_outage_without_escalation() -> None:
    world = unknown()
    began = world.clock.now()
    world.payments.fails("look_up", *[Fault.TIMEOUT_BEFORE] * 100)
    asked = 0
    while world.clock.now() < began + timedelta(minutes=30):
        assert world.reconcile(KEY).unreachable
        asked += 1
        world.clock.time = world.job(KEY).due_at or world.clock.time
    world.payments.faults.clear()

    done = world.reconcile(KEY)

    assert done.new is Status.FINISHED
    assert asked < 10  # more and more seldom
    assert world.alerts.told == []


def test_resolution_reports_stored_review_reason() -> None:
    world = unknown()
    world.add_order(status="paid", charge_id="ch_from_elsewhere")

    done = world.reconcile(KEY)

    assert done.reason == world.job(KEY).last_error
    assert "the local rows refuse" in done.reason


def test_orphaned_outcome_needs_alert() -> None:
    world = unknown()
    provider = world.payments
    world.payments = Meanwhile(provider, "look_up", lambda: world.store.expire(KEY))

    done = world.reconciler().resolve(JobKey(KEY))

    assert (done.outcome, done.alert) == ("gone", True)
    assert "charged 12.50 EUR" in done.reason
    assert world.store.get(JobKey(KEY)) is None


def test_late_decline_fails_job_and_order() -> None:
    world = World()
    world.add_order()
    world.payments.processes = True
    world.run(charge())
    world.payments.settle("pi_1", status="declined")
    world.clock.move(minutes=2)

    done = world.reconcile(KEY)
    world.run(world.outbox.sent.pop())

    assert done.new is Status.READY
    assert world.job(KEY).status is Status.FAILED
    assert world.order()["status"] == "payment_failed"


def test_early_absence_stays_unknown_when_lookup_is_slow() -> None:
    world = unknown(charged=False)
    provider = world.payments
    world.payments = Meanwhile(provider, "look_up", lambda: world.clock.move(minutes=1))

    done = world.reconcile(KEY)

    assert done.new is Status.UNKNOWN


def test_job_is_due_later_when_publishing_fails() -> None:
    world = World()
    world.add_order()
    world.run(charge())
    world.clock.move(hours=1)
    world.outbox.refuses = frozenset({0})

    with pytest.raises(UnavailableError):
        world.reconcile(KEY)

    assert (world.job(KEY).due_at or world.clock.now()) > world.clock.now()


def test_ready_job_with_broken_record_escalates_at_age_limit() -> None:
    world = World(contracts=(SyncPush,))
    world.tools.rows.put("records", {"record_id": "app#1"}, {"source": "app"})
    key = job_key("sync.push", "hubspot", "app#1", 1)
    message: dict[str, Json] = {
        "job": "sync.push",
        "v": 1,
        "target": "hubspot",
        "record_id": "app#1",
        "version": 1,
    }
    now = world.clock.now()
    world.store.create(
        enqueued(key, "sync.push", message, now=now, due_at=now, actor="test", reason="test")
    )
    world.clock.move(hours=25)

    done = world.reconcile(key)

    assert done.new is Status.NEEDS_REVIEW


def test_unreadable_job_alert_is_retried_after_failure() -> None:
    world = unknown()
    world.contracts = ()
    world.alerts.broken = True
    world.reconcile(KEY)
    world.alerts.broken = False
    world.clock.move(hours=1)

    done = world.reconcile(KEY)

    assert done.outcome == "needs_review"
    assert len(world.alerts.told) == 1


def test_dry_run_needs_no_alert() -> None:
    world = unknown()
    world.add_order(amount=9900)

    done = world.reconcile(KEY, dry_run=True)

    assert (done.new, done.alert) == (Status.NEEDS_REVIEW, False)
    assert world.alerts.told == []
