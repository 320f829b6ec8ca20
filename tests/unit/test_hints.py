"""Hints: an event brings a lookup forward, and can do nothing else."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.errors import UnavailableError
from oncely.core.hints import (
    DropReason,
    HintAction,
    ReportedState,
    action_for_hint,
    after_event,
)
from oncely.core.job_row import EventMark, EventRecord, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.table_guard import TableOpen
from oncely.jobs.refund_ledger import RefundLedger, RefundState
from oncely.plugins.events import JobHint, ProviderEvent
from oncely.reconcile.event_intake import receive_hint
from tests.support.crash_points import InterruptingPort
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.unit.samples import NOW, TICK, make_job

HOUR = timedelta(hours=1)
KEY = JobKey("payment.charge:order_18452")


@pytest.mark.parametrize("reported", ReportedState)
def test_unknown_job_is_asked_whatever_the_event_says(reported: ReportedState) -> None:
    job = make_job(status=Status.UNKNOWN, deployment="dev")
    assert action_for_hint(job, reported, deployment="dev", object_id="pi_1") is HintAction.ASK_NOW


@pytest.mark.parametrize("reported", ReportedState)
@pytest.mark.parametrize(
    ("status", "action"),
    [
        (Status.READY, DropReason.NOT_NEEDED),
        (Status.NEEDS_REVIEW, DropReason.NOT_NEEDED),
        (Status.STARTED, HintAction.WAIT),
    ],
)
def test_job_that_waits_runs_or_needs_review_is_left_alone(
    status: Status, reported: ReportedState, action: HintAction | DropReason
) -> None:
    job = make_job(status=status, deployment="dev")
    assert action_for_hint(job, reported, deployment="dev", object_id="pi_1") is action


@pytest.mark.parametrize(
    ("status", "reported", "action"),
    [
        (Status.FINISHED, ReportedState.FAILED, HintAction.CHECK_END),
        (Status.FAILED, ReportedState.SUCCEEDED, HintAction.CHECK_END),
        (Status.CANCELLED, ReportedState.SUCCEEDED, HintAction.CHECK_END),
        (Status.FINISHED, ReportedState.SUCCEEDED, DropReason.NOT_NEEDED),
        (Status.FAILED, ReportedState.FAILED, DropReason.NOT_NEEDED),
        (Status.CANCELLED, ReportedState.FAILED, DropReason.NOT_NEEDED),
        (Status.FINISHED, ReportedState.PROCESSING, DropReason.NOT_NEEDED),
        (Status.FAILED, ReportedState.PROCESSING, DropReason.NOT_NEEDED),
    ],
)
def test_ended_job_is_checked_only_if_event_contradicts_it(
    status: Status, reported: ReportedState, action: HintAction | DropReason
) -> None:
    job = make_job(status=status, deployment="dev")
    assert action_for_hint(job, reported, deployment="dev", object_id="pi_1") is action


@pytest.mark.parametrize("reported", ReportedState)
@pytest.mark.parametrize("status", Status)
def test_event_that_is_not_the_job_s_does_nothing(status: Status, reported: ReportedState) -> None:
    def action(job: JobRow | None) -> HintAction | DropReason:
        return action_for_hint(job, reported, deployment="dev", object_id="pi_1")

    ours = make_job(status=status, deployment="dev")
    assert action(None) is DropReason.NO_JOB
    assert action(replace(ours, deployment="staging")) is DropReason.OTHER_DEPLOYMENT
    assert action(replace(ours, provider_ref="pi_2")) is DropReason.OTHER_OBJECT
    assert action(replace(ours, provider_ref="pi_1")) is action(ours)


EVENT = EventRecord(
    at=NOW, provider="stripe", name="payment_intent.succeeded", mark=EventMark.HINT, ref="pi_1"
)
PROOF = replace(EVENT, mark=EventMark.PROOF, fence=1)


def test_event_makes_unknown_job_due_and_is_kept() -> None:
    job = make_job(status=Status.UNKNOWN, due_at=NOW + HOUR)
    after = replace(job, version=job.version + 1, due_at=NOW, provider_events=(EVENT,))
    assert after_event(job, EVENT, NOW) == after
    assert after_event(after, EVENT, NOW + TICK) is None  # it is due, and nothing is new


def test_repeated_event_makes_its_job_due_again() -> None:
    """A provider names two changes alike, so the second one may be news."""
    job = make_job(status=Status.UNKNOWN, due_at=NOW + HOUR, provider_events=(EVENT,))
    after = after_event(job, replace(EVENT, at=NOW + TICK), NOW + TICK)
    assert after == replace(job, version=job.version + 1, due_at=NOW + TICK)


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.UNKNOWN}))
def test_event_makes_no_other_job_due(status: Status) -> None:
    job = make_job(status=status, due_at=NOW + HOUR)
    after = after_event(job, PROOF, NOW)
    assert after == replace(job, version=job.version + 1, provider_events=(PROOF,))


def test_started_job_takes_only_a_proof() -> None:
    """Its owner would lose its tries to a flood of events that say less than it knows."""
    assert after_event(make_job(), EVENT, NOW) is None
    assert after_event(make_job(), replace(EVENT, mark=EventMark.REPORT), NOW) is None
    assert after_event(make_job(), PROOF, NOW) is not None


@pytest.fixture
def debit(world: InMemoryStack) -> InMemoryStack:
    """A bank debit on its third day, looked up a few times a day."""
    world.payments.processes = True
    world.run(charge_message())
    end = world.clock.now() + timedelta(days=3)
    while world.clock.now() < end:
        world.clock.time = world.job(KEY).due_at or end
        world.reconcile(KEY)
    return world


def test_hint_brings_the_next_lookup_forward(debit: InMemoryStack) -> None:
    debit.payments.complete("pi_1", status="succeeded")
    before = debit.job(KEY)
    assert before.due_at is not None
    assert before.due_at > debit.clock.now() + 5 * HOUR

    receive(debit, ReportedState.SUCCEEDED)

    hinted = debit.job(KEY)
    assert (hinted.version, hinted.evidence) == (before.version + 1, before.evidence)
    assert [event.mark for event in hinted.provider_events] == [EventMark.HINT]
    debit.reconcile(KEY)
    assert debit.job(KEY).status is Status.FINISHED


def test_hint_during_a_lookup_is_asked_again_at_once(debit: InMemoryStack) -> None:
    class _HintedMeanwhile:
        """The payment succeeds, and its event arrives, after the provider has answered."""

        def __getattr__(self, name: str) -> object:
            if name != "lookup":
                return getattr(debit.payments, name)
            return self.lookup

        def lookup(self, *args: Any) -> object:  # noqa: ANN401  # as the provider's
            answer = debit.payments.lookup(*args)
            debit.payments.complete("pi_1", status="succeeded")
            receive(debit, ReportedState.SUCCEEDED)
            return answer

    debit.clock.time = debit.job(KEY).due_at or debit.clock.time
    debit.app(provider=_HintedMeanwhile()).reconciler.resolve(KEY)

    job = debit.job(KEY)
    assert (job.status, job.due_at) == (Status.UNKNOWN, debit.clock.now())
    debit.reconcile(KEY)
    assert debit.job(KEY).status is Status.FINISHED


def test_hint_during_the_ending_lookup_does_not_delay_the_end(debit: InMemoryStack) -> None:
    class _HintedMeanwhile:
        def __getattr__(self, name: str) -> object:
            if name == "lookup":
                receive(debit, ReportedState.SUCCEEDED)
            return getattr(debit.payments, name)

    debit.payments.complete("pi_1", status="succeeded")
    debit.clock.time = debit.job(KEY).due_at or debit.clock.time
    debit.app(provider=_HintedMeanwhile()).reconciler.resolve(KEY)
    assert debit.job(KEY).status is Status.FINISHED


def open_table(world: InMemoryStack) -> TableOpen:
    table = world.reconciler().guard.check()
    assert isinstance(table, TableOpen)
    return table


def receive(
    world: InMemoryStack,
    reported: ReportedState,
    key: JobKey = KEY,
    *,
    object_id: str = "pi_1",
    deployment: str | None = None,
) -> HintAction | DropReason:
    hint = JobHint(deployment=deployment, job_key=key, reported=reported)
    event = ProviderEvent(
        event_id="evt_1", type="an.event", created=NOW, object_id=object_id, content=hint
    )
    return receive_hint(world.reconciler(), open_table(world), hint, event, "stripe")


def test_event_finishes_slow_payment_with_the_next_sweep(debit: InMemoryStack) -> None:
    debit.payments.complete("pi_1", status="succeeded")
    assert receive(debit, ReportedState.SUCCEEDED) is HintAction.ASK_NOW
    debit.reconcile(KEY)
    assert debit.job(KEY).status is Status.FINISHED


def test_event_stays_in_queue_while_its_row_keeps_changing(debit: InMemoryStack) -> None:
    def note() -> None:
        job = debit.job(KEY)
        debit.store.jobs[KEY] = replace(job, version=job.version + 1)

    hint = JobHint(deployment=None, job_key=KEY, reported=ReportedState.SUCCEEDED)
    event = ProviderEvent(
        event_id="evt_1", type="an.event", created=NOW, object_id="pi_1", content=hint
    )
    restless: Any = InterruptingPort(debit.store, "get", note)
    with pytest.raises(UnavailableError, match="changed 5 times"):
        receive_hint(
            replace(debit.reconciler(), store=restless), open_table(debit), hint, event, "stripe"
        )


def test_paid_order_stays_paid_after_late_failed_event(world: InMemoryStack) -> None:
    world.run(charge_message())
    before = world.job(KEY)

    assert receive(world, ReportedState.FAILED) is HintAction.CHECK_END

    assert (world.job(KEY), world.order()["status"]) == (before, "paid")
    assert world.alerts.sent == []


def test_event_before_its_job_creates_nothing(world: InMemoryStack) -> None:
    assert receive(world, ReportedState.SUCCEEDED) is DropReason.NO_JOB
    assert world.store.get(KEY) is None


def test_forged_event_does_not_finish_an_open_payment(debit: InMemoryStack) -> None:
    receive(debit, ReportedState.SUCCEEDED)
    debit.reconcile(KEY)
    assert (debit.job(KEY).status, debit.payments.charges) == (Status.UNKNOWN, [])


def test_event_of_another_deployment_is_dropped(debit: InMemoryStack) -> None:
    before = debit.job(KEY)
    done = receive(debit, ReportedState.SUCCEEDED, deployment="staging")
    assert (done, debit.job(KEY)) == (DropReason.OTHER_DEPLOYMENT, before)


def test_refund_that_fails_later_needs_review_after_its_event(world: InMemoryStack) -> None:
    world.run(charge_message())
    world.run(world.request_refund())
    key = JobKey("payment.refund:order_18452:rma_1")
    world.payments.complete_refund("re_1", status="failed")

    first, second = (receive(world, ReportedState.FAILED, key, object_id="re_1") for _ in range(2))
    assert (first, second) == (HintAction.CHECK_END, DropReason.NOT_NEEDED)  # in review already

    assert world.job(key).status is Status.NEEDS_REVIEW
    row = world.rows.get("refunds", {"charge_id": "ch_1"})
    assert RefundLedger.from_row("ch_1", row).states == {key: RefundState.FAILED}
