"""Cancel: a job ends before anything is done, or a worker closes what is open first."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.decide import on_late_outcome
from oncely.core.effect_outcomes import Succeeded
from oncely.core.ended_jobs import MONEY_RETENTION
from oncely.core.job_row import CANCELLED_BY_OPERATOR, operator_actor
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.outcomes import RunOutcome
from oncely.core.profiles import RetryPolicy, RetrySafety
from oncely.core.repairs import Repair, check_cancel
from oncely.core.table_guard import TableOpen
from oncely.operate.job_lists import JobFilter
from oncely.operate.repair_request import (
    NO_VERSION,
    BusinessRowConflict,
    JobNotFound,
    NotAllowed,
    Repaired,
    RepairOutcome,
    RepairRequest,
    StaleVersion,
)
from oncely.operate.verdicts import ChargeSummary
from oncely.run.process_batch import Ack, action_for
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.crash_points import InterruptingPort
from tests.support.fakes import FakeTableGuard
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_cancelled, is_duplicate, is_finished
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import (
    KEY,
    OPERATOR,
    REASON,
    repair_job,
    world_with_declined_job,
    world_with_review_job,
    world_with_unknown_job,
)
from tests.support.scheduled_charge import ScheduledCharge
from tests.unit.samples import NOW, PROFILE, make_job

NATURAL = RetryPolicy(safety=RetrySafety.NATURAL, profile=PROFILE)
KEYED = RetryPolicy(safety=RetrySafety.KEYED, profile=PROFILE)
PREPARES = RetryPolicy(safety=RetrySafety.KEYED, profile=PROFILE, leaves_open=True)
RECEIPT = {"job": "receipt.send", "v": 1, "order_id": "18452"}
RECEIPT_KEY = JobKey("receipt.send:order_18452")
RESULT = {"code": CANCELLED_BY_OPERATOR}


def cancel(world: InMemoryStack, key: JobKey = KEY, **more: object) -> RepairOutcome:
    row = world.store.get(key)
    seen = {"version": row.version if row else NO_VERSION, "reason": REASON, "actor": OPERATOR}
    request = RepairRequest(key=key, repair=Repair.CANCEL, **{**seen, **more})  # type: ignore[arg-type]  # fields by name
    return world.repairer().repair(request)


@pytest.fixture
def world() -> InMemoryStack:
    stack = InMemoryStack()
    stack.add_order(charge_requested_at="2026-11-16T02:00:00.000Z")
    return stack


def enqueued(world: InMemoryStack) -> InMemoryStack:
    world.enqueuer().enqueue(charge_message())
    world.outbox.sent.clear()
    return world


def with_open_payment(world: InMemoryStack) -> InMemoryStack:
    """Ready again, with a payment that is prepared and not confirmed."""
    world.payments.fail_next("execute", ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())
    assert (world.job(KEY).status, world.job(KEY).provider_ref) == (Status.READY, "pi_1")
    return world


def run_sent(world: InMemoryStack) -> RunOutcome:
    (body,) = world.outbox.sent
    world.outbox.sent.clear()
    return world.run(body)


def test_ready_job_is_cancelled_by_write_of_its_row(world: InMemoryStack) -> None:
    outcome = cancel(enqueued(world))

    job = world.job(KEY)
    assert isinstance(outcome, Repaired)
    assert (job.status, job.result, job.due_at) == (Status.CANCELLED, RESULT, None)
    assert job.expires_at == world.clock.now() + MONEY_RETENTION
    entry = job.evidence[-1]
    assert (entry.event, entry.actor) == (Event.CANCEL, operator_actor(OPERATOR))
    assert entry.reason == REASON
    view = world.inspector().get(KEY)
    assert view is not None
    assert view.headline == f"Cancelled, not charged: {REASON}."
    assert world.payments.calls == []


def test_message_of_cancelled_job_is_duplicate(world: InMemoryStack) -> None:
    cancel(enqueued(world))
    outcome = world.run(charge_message())
    assert is_duplicate(outcome)
    assert (outcome.status, outcome.result) == (Status.CANCELLED, RESULT)
    assert action_for(outcome, near_receive_limit=False) == Ack()
    assert world.payments.calls == []


def test_cancelled_order_asks_for_no_charge_any_more(world: InMemoryStack) -> None:
    """Otherwise, the reconciler would charge it when the cancelled row has expired."""
    cancel(enqueued(world))
    assert "charge_requested_at" not in world.order()
    assert world.order()["status"] == "payment_pending"


def test_absent_key_becomes_cancelled_row(world: InMemoryStack) -> None:
    outcome = cancel(world)

    assert isinstance(outcome, Repaired)
    job = world.job(KEY)
    assert (job.status, job.result, job.fence) == (Status.CANCELLED, RESULT, 0)
    assert not job.is_forged
    assert is_duplicate(world.run(charge_message()))
    enqueued_again = world.enqueuer().enqueue(charge_message())
    assert (enqueued_again.created, enqueued_again.status) == (False, Status.CANCELLED)
    assert world.payments.calls == []
    assert world.inspector().list_page(JobFilter(status="cancelled")).jobs[0].job == job


def test_absent_key_is_not_cancelled_when_message_came_first(world: InMemoryStack) -> None:
    """The row appears between the read and the write."""
    store = InterruptingPort(world.store, "get", lambda: world.run(charge_message()))
    repairer = world.app(store=store).repairer
    request = RepairRequest(
        key=KEY, repair=Repair.CANCEL, version=NO_VERSION, reason=REASON, actor=OPERATOR
    )
    assert isinstance(repairer.repair(request), StaleVersion)
    assert world.job(KEY).status is Status.FINISHED


@pytest.mark.parametrize("key", ["no.such:1", "payment.charge", "payment.charge:", "order_18452"])
def test_text_that_is_no_key_is_not_found(world: InMemoryStack, key: str) -> None:
    assert isinstance(cancel(world, JobKey(key)), JobNotFound)
    assert world.store.jobs == {}


def test_other_repair_of_absent_key_is_not_found(world: InMemoryStack) -> None:
    request = RepairRequest(
        key=KEY, repair=Repair.RESEND, version=NO_VERSION, reason=REASON, actor=OPERATOR
    )
    assert isinstance(world.repairer().repair(request), JobNotFound)
    assert isinstance(cancel(world, version=3), JobNotFound)
    assert world.store.jobs == {}


def test_absent_key_is_not_cancelled_after_restore(world: InMemoryStack) -> None:
    until = world.clock.now() + timedelta(days=18)
    world.guard = FakeTableGuard(TableOpen(deployment="dev", replays_until=until))
    assert isinstance(cancel(world), NotAllowed)
    assert world.store.jobs == {}


def test_absent_key_needs_row_for_second_operator(world: InMemoryStack) -> None:
    world.second_operator_above = "eur:1000"
    assert isinstance(cancel(world), NotAllowed)
    assert world.store.jobs == {}


def test_dry_run_changes_nothing(world: InMemoryStack) -> None:
    assert isinstance(cancel(world, dry_run=True), Repaired)
    assert world.store.jobs == {}
    before = enqueued(world).job(KEY)
    assert isinstance(cancel(world, dry_run=True), Repaired)
    assert world.job(KEY) == before


def test_open_payment_is_cancelled_first_by_worker(world: InMemoryStack) -> None:
    outcome = cancel(with_open_payment(world))

    assert isinstance(outcome, Repaired)
    assert (outcome.after.status, world.payments.intents["pi_1"].status) == (
        Status.READY,
        "requires_confirmation",
    )
    done = run_sent(world)
    assert is_cancelled(done)
    assert action_for(done, near_receive_limit=False) == Ack()
    job = world.job(KEY)
    assert (job.status, job.result and job.result["code"]) == (
        Status.CANCELLED,
        CANCELLED_BY_OPERATOR,
    )
    assert world.payments.intents["pi_1"].status == "canceled"
    assert [entry.event for entry in job.evidence][-2:] == [Event.CLOSE_AND_CANCEL, Event.CLOSE]
    assert "charge_requested_at" not in world.order()
    assert world.order()["status"] == "payment_pending"


def test_cancelled_job_waits_for_nothing_any_more(world: InMemoryStack) -> None:
    held = replace(with_open_payment(world).job(KEY), waits_for=WaitKind.SECRET, since=NOW)
    world.store.jobs[KEY] = held
    cancel(world)
    job = world.job(KEY)
    assert (job.status, job.waits_for, job.since) == (Status.READY, None, None)


def test_payment_that_succeeded_by_then_is_finished(world: InMemoryStack) -> None:
    with_open_payment(world)
    world.payments.complete("pi_1", status="succeeded")
    cancel(world)
    assert is_finished(run_sent(world))
    assert world.order()["status"] == "paid"


def test_lost_response_of_close_is_looked_up(world: InMemoryStack) -> None:
    cancel(with_open_payment(world))
    world.payments.fail_next("close", ProviderFault.TIMEOUT_AFTER)
    run_sent(world)
    assert world.job(KEY).status is Status.UNKNOWN
    world.clock.advance(minutes=2)
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.CANCELLED


def test_declined_payment_of_cancelled_job_does_not_fail_it(world: InMemoryStack) -> None:
    """The close was lost, and a late confirmation was declined: it is still open."""
    cancel(with_open_payment(world))
    world.payments.fail_next("close", ProviderFault.TIMEOUT_BEFORE)
    run_sent(world)
    world.payments.complete("pi_1", status="declined")
    world.run_until_idle(KEY)
    assert (world.job(KEY).status, world.payments.intents["pi_1"].status) == (
        Status.CANCELLED,
        "canceled",
    )


def test_open_payment_needs_business_rows(world: InMemoryStack) -> None:
    with_open_payment(world)
    world.add_order(amount=9900)
    outcome = cancel(world)
    assert isinstance(outcome, BusinessRowConflict)
    assert world.job(KEY).status is Status.READY


def test_job_that_waits_to_close_is_not_cancelled_again(world: InMemoryStack) -> None:
    cancel(with_open_payment(world))
    assert isinstance(cancel(world), NotAllowed)


def test_job_that_sent_nothing_is_cancelled_after_claims(world: InMemoryStack) -> None:
    world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())
    assert (world.job(KEY).fence, world.job(KEY).provider_ref) == (1, None)
    assert isinstance(cancel(world), Repaired)
    assert world.job(KEY).status is Status.CANCELLED


@pytest.mark.parametrize(
    ("changes", "policy", "allowed"),
    [
        ({}, NATURAL, True),
        ({"first_sent_at": NOW}, NATURAL, False),
        ({"first_sent_at": NOW}, KEYED, False),
        ({"first_sent_at": NOW}, PREPARES, True),  # what is only prepared has no effect
        ({"provider_ref": "pi_1"}, PREPARES, True),
        ({"provider_ref": "7"}, KEYED, False),
        ({"progress": {"page": 3}}, NATURAL, False),
    ],
)
def test_claimed_job_is_cancelled_only_if_nothing_was_done(
    changes: dict[str, object], policy: RetryPolicy, *, allowed: bool
) -> None:
    job = make_job(status=Status.READY, **{"first_sent_at": None, **changes})
    checked = check_cancel(job, policy)
    assert checked is not None
    assert checked[0] is allowed


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        (world_with_unknown_job(), "its outcome is unknown"),
        (world_with_declined_job(), "it has already failed"),
        (world_with_review_job(), "mark it as done or failed"),
    ],
    ids=["unknown", "failed", "review"],
)
def test_job_that_may_be_done_is_not_cancelled(world: InMemoryStack, reason: str) -> None:
    before = world.job(KEY)
    outcome = cancel(world)
    assert isinstance(outcome, NotAllowed)
    assert reason in outcome.reason
    assert world.job(KEY) == before


def test_review_that_sent_nothing_is_cancelled() -> None:
    world = InMemoryStack()
    world.run(charge_message())
    while world.job(KEY).status is Status.READY:
        world.clock.time = world.job(KEY).due_at or world.clock.time
        world.reconcile(KEY)
    assert world.job(KEY).awaits_message
    assert isinstance(cancel(world), Repaired)
    assert world.job(KEY).status is Status.CANCELLED
    world.add_order()
    assert is_duplicate(world.run(charge_message()))


def test_restored_mail_that_may_be_sent_is_not_cancelled() -> None:
    world = InMemoryStack()
    world.add_order(status="paid", charge_id="ch_1")
    world.enqueuer().enqueue(RECEIPT)
    until = world.clock.now() + timedelta(days=18)
    world.guard = FakeTableGuard(TableOpen(deployment="dev", replays_until=until))
    outcome = cancel(world, RECEIPT_KEY)
    assert isinstance(outcome, NotAllowed)
    assert "cannot be asked" in outcome.reason


def test_cancelled_job_cannot_be_resubmitted(world: InMemoryStack) -> None:
    cancel(enqueued(world))
    assert isinstance(repair_job(world, Repair.RESUBMIT), NotAllowed)
    world.run(charge_message(attempt=2))
    second = world.store.get(JobKey(f"{KEY}:2"))
    assert second is None
    assert world.payments.calls == []


def test_late_success_contradicts_cancelled_job(world: InMemoryStack) -> None:
    cancel(enqueued(world))
    decision = on_late_outcome(world.job(KEY), Succeeded("charged", "pi_9"), fence=1)
    assert (decision.event, decision.alert) == (Event.CONTRADICT, True)


def test_scheduled_job_is_cancelled_and_outlives_its_time(world: InMemoryStack) -> None:
    world.contracts = (ScheduledCharge,)
    later = world.clock.now() + timedelta(days=90)
    world.enqueuer().enqueue(charge_message(), run_at=later)
    cancel(world)
    assert world.job(KEY).expires_at == later + MONEY_RETENTION


def test_customer_reads_that_nothing_was_charged(world: InMemoryStack) -> None:
    cancel(enqueued(world))
    assert ChargeSummary.from_jobs([world.job(KEY)]).summary == "not charged: cancelled"


def test_command_cancels_job(world: InMemoryStack) -> None:
    connection = FakeStackConnection(enqueued(world))
    result = run_cli("cancel", KEY, "--reason", "ordered twice", "--yes", connection=connection)
    assert result.exit_code == 0, result.output
    assert "The job is now cancelled." in result.stdout
    assert world.job(KEY).status is Status.CANCELLED


def test_command_warns_about_new_key(world: InMemoryStack) -> None:
    connection = FakeStackConnection(world)
    words = ("cancel", "payment.charge:18452", "--reason", "never sent", "--yes", "--json")
    result = run_cli(*words, connection=connection)
    assert result.exit_code == 0, result.output
    assert "look like payment.charge:order_18452" in result.stderr
    assert json.loads(result.stdout)["job"]["status"] == "cancelled"


def test_command_refuses_unknown_job_type(world: InMemoryStack) -> None:
    connection = FakeStackConnection(world)
    result = run_cli("cancel", "no.such:1", "--reason", "x", "--yes", connection=connection)
    assert result.exit_code == 1
    assert world.store.jobs == {}


def test_command_says_why_job_cannot_be_cancelled() -> None:
    connection = FakeStackConnection(world_with_unknown_job())
    result = run_cli("cancel", KEY, "--reason", "x", "--yes", connection=connection)
    assert result.exit_code == 1
    assert "its outcome is unknown" in result.stderr
