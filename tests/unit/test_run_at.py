"""`run_at`: no worker runs the job earlier, and a newer message can change it."""

import json
from datetime import timedelta

import pytest

from oncely.domain.decisions import DEAD_LETTER_RETRY_DELAY, MESSAGE_GRACE
from oncely.domain.due import mark_stranded, on_dead_letter
from oncely.domain.errors import InvalidMessageError
from oncely.domain.history import HistoryLine, history_line
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.restore import restore_row
from oncely.domain.schedule import MAX_DELAY
from oncely.domain.text import format_time
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptMessage, ReceiptSend
from oncely.message import Message
from oncely.reconcile.find_due_work import SweepRequest
from oncely.run.outcomes import Finished, InvalidMessage, NotAttempted, RunOutcome, Scheduled
from oncely.run.process_batch import Ack, action_for
from oncely.testing.provider_fault import ProviderFault
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.unit.samples import KEY

MONTH = START + timedelta(days=30)
WEEK = START + timedelta(days=7)
SWEEP = timedelta(minutes=1)


@pytest.fixture
def world() -> InMemoryStack:
    stack = InMemoryStack()
    stack.add_order()
    return stack


def deliver(world: InMemoryStack, *, sent_after: float = 0, **more: object) -> RunOutcome:
    """Deliver a message that was sent so many seconds after the start."""
    return world.runner().run(
        json.dumps({**charge_message(), **more}),
        deadline=world.clock.now() + timedelta(seconds=60),
        sent_at=START + timedelta(seconds=sent_after),
    )


def sweep(world: InMemoryStack) -> list[RunOutcome]:
    """One sweep, and the messages that it sends."""
    for item in world.finder().find(SweepRequest()).items:
        world.reconcile(item.key)
    sent, world.outbox.sent = world.outbox.sent, []
    return [world.run(body) for body in sent]


def test_enqueued_job_waits_on_its_row_without_message(world: InMemoryStack) -> None:
    result = world.enqueuer().enqueue(charge_message(), run_at=MONTH)

    row = world.job(KEY)
    assert (result.created, result.sent, result.run_at) == (True, False, MONTH)
    assert (row.status, row.run_at, row.due_at) == (Status.READY, MONTH, MONTH)
    assert (row.message, world.outbox.sent) == (charge_message(), [])
    view = world.inspector().get(KEY)
    assert view is not None
    assert view.headline == "Not charged yet. It runs at 2026-12-16 03:00 UTC."


def test_job_starts_within_one_sweep_of_its_time(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    world.clock.time = MONTH - SWEEP
    assert sweep(world) == []
    world.clock.time = MONTH
    (outcome,) = sweep(world)
    assert isinstance(outcome, Finished)


def test_message_with_time_makes_row_and_is_acked(world: InMemoryStack) -> None:
    outcome = deliver(world, run_at=format_time(MONTH))

    assert outcome == Scheduled(job_key=KEY, job_type="payment.charge", until=MONTH)
    assert action_for(outcome, near_receive_limit=False) == Ack()
    assert (world.job(KEY).run_at, world.job(KEY).fence) == (MONTH, 0)


def test_job_that_runs_later_needs_no_business_rows_yet() -> None:
    world = InMemoryStack()
    deliver(world, run_at=format_time(MONTH))
    world.clock.time = WEEK
    assert isinstance(deliver(world), Scheduled), "a plain message does not make it wait for rows"
    world.clock.time = MONTH
    world.add_order()
    assert [type(one) for one in sweep(world)] == [Finished]


def test_early_plain_message_cannot_run_it(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    world.clock.time = MONTH - timedelta(milliseconds=1)

    outcome = deliver(world)

    assert isinstance(outcome, Scheduled)
    assert (world.payments.calls, world.job(KEY).version) == ([], 1)


def test_second_enqueue_moves_time_until_claimed(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)

    again = world.enqueuer().enqueue(charge_message(), run_at=WEEK)
    assert (again.created, again.sent) == (False, True)
    (body,) = world.outbox.sent
    world.outbox.sent.clear()
    assert isinstance(world.run(body), Scheduled)

    assert (world.job(KEY).run_at, world.job(KEY).due_at) == (WEEK, WEEK)
    assert world.job(KEY).evidence[-1].event is Event.RESCHEDULE
    world.clock.time = WEEK
    assert [type(one) for one in sweep(world)] == [Finished]
    late = world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    assert (late.sent, late.status) == (False, Status.FINISHED)


def test_same_time_again_changes_nothing(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    assert not world.enqueuer().enqueue(charge_message(), run_at=MONTH).sent
    deliver(world, run_at=format_time(MONTH))
    assert world.job(KEY).version == 1


def test_time_that_has_come_runs_scheduled_job_now(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    world.clock.advance(minutes=1)
    now = format_time(world.clock.now())

    first = deliver(world, sent_after=60, run_at=now)

    assert isinstance(first, NotAttempted)
    assert world.job(KEY).run_at is None
    assert world.job(KEY).due_at == world.clock.now() + MESSAGE_GRACE
    assert isinstance(deliver(world, sent_after=60, run_at=now), Finished)


def test_redelivered_message_does_not_bring_old_time_back(world: InMemoryStack) -> None:
    deliver(world, sent_after=1, run_at=format_time(WEEK))
    deliver(world, sent_after=2, run_at=format_time(MONTH))
    deliver(world, sent_after=1, run_at=format_time(WEEK))
    assert world.job(KEY).run_at == MONTH


def test_old_time_of_job_that_runs_now_is_acked(world: InMemoryStack) -> None:
    deliver(world, sent_after=1, run_at=format_time(WEEK))
    deliver(world, sent_after=2, run_at=format_time(START))
    late = deliver(world, sent_after=1, run_at=format_time(WEEK))
    assert action_for(late, near_receive_limit=False) == Ack(), "the row sends its message"
    assert world.job(KEY).run_at is None


def test_time_of_begun_job_is_not_moved(world: InMemoryStack) -> None:
    world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
    deliver(world)
    row = world.job(KEY)
    assert (row.status, row.fence) == (Status.READY, 1)

    outcome = deliver(world, sent_after=9, run_at=format_time(MONTH))

    assert isinstance(outcome, Scheduled)
    assert world.job(KEY) == row


def test_newest_message_of_unclaimed_job_counts(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    deliver(world, sent_after=5, run_at=format_time(WEEK), amount=1250)
    assert world.job(KEY).message == charge_message(amount=1250)


def test_time_is_not_in_fingerprint(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=WEEK)
    world.clock.time = WEEK
    sweep(world)
    world.enqueuer().enqueue(charge_message(order_id="2"))
    world.add_order("2")
    world.run(charge_message("2"))
    assert world.job(KEY).message == charge_message()
    assert "run_at" not in world.job(KEY).message


def test_age_counts_from_time_to_run(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    row = world.job(KEY)
    assert row.age_starts_at == MONTH
    assert row.past_max_age(timedelta(hours=24), MONTH + timedelta(hours=23)) is None
    assert row.past_max_age(timedelta(hours=24), MONTH + timedelta(hours=25))


def test_early_row_that_became_due_waits_again(world: InMemoryStack) -> None:
    """A restore or a race may leave an early due time: one message, and none after it."""
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    row = world.job(KEY)
    world.store.compare_and_swap(
        row, row.apply(Event.NOTE, now=START, actor="test", reason="due", due_at=START)
    )
    (outcome,) = sweep(world)
    assert isinstance(outcome, Scheduled)
    assert world.job(KEY).due_at == MONTH


def test_dead_letter_of_scheduled_job_keeps_its_time(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    row = world.job(KEY)
    assert on_dead_letter(row, START) is None
    assert mark_stranded(row, START).due_at == MONTH
    assert mark_stranded(row, MONTH).due_at == MONTH + DEAD_LETTER_RETRY_DELAY


def test_resend_of_scheduled_job_is_refused(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    view = world.inspector().get(KEY)
    assert view is not None
    (resend,) = (one for one in view.repairs if one.repair == "resend")
    assert (resend.allowed, resend.reason) == (
        False,
        "it runs at 2026-12-16 03:00 UTC: its row sends the message then",
    )


@pytest.mark.parametrize("text", ["tomorrow", "2026-12-01T09:00:00", 1764579600, "1764579601", ""])
def test_time_without_zone_is_rejected(world: InMemoryStack, text: object) -> None:
    outcome = deliver(world, run_at=text)
    assert isinstance(outcome, InvalidMessage)
    assert "run_at" in outcome.reason


def test_time_years_ahead_is_rejected(world: InMemoryStack) -> None:
    far = START + MAX_DELAY + timedelta(days=1)
    assert isinstance(deliver(world, run_at=format_time(far)), InvalidMessage)
    with pytest.raises(InvalidMessageError, match="730 days"):
        world.enqueuer().enqueue(charge_message(), run_at=far)
    assert world.store.jobs == {}


def test_past_time_runs_at_once(world: InMemoryStack) -> None:
    result = world.enqueuer().enqueue(charge_message(), run_at=START - timedelta(days=1))
    assert (result.sent, result.run_at) == (True, None)
    assert isinstance(world.run(world.outbox.sent[0]), Finished)


class Reminding(PaymentCharge):
    """A receipt follows a week later."""

    def follow_ups(self, job: Job) -> tuple[Message, ...]:
        fields = {"job": "receipt.send", "v": 1, "order_id": "18452"}
        return (ReceiptMessage.model_validate({**fields, "run_at": WEEK}),)


def test_follow_up_keeps_its_time() -> None:
    world = InMemoryStack(contracts=(Reminding, ReceiptSend))
    world.add_order()
    world.run(charge_message())
    world.publisher().publish(KEY)
    (body,) = world.outbox.sent
    assert isinstance(world.run(body), Scheduled)
    assert world.job("receipt.send:order_18452").run_at == WEEK


def test_restored_job_keeps_its_time(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    line = history_line(None, world.job(KEY), generation="T1", at=START)
    assert line is not None
    assert HistoryLine.from_dict(line.to_dict()) == line

    restored = restore_row(None, line, deployment="dev", now=WEEK)

    assert restored is not None
    assert (restored.run_at, restored.age_starts_at) == (MONTH, MONTH)


def test_restored_job_waits_for_its_time_again() -> None:
    """It is looked up, was never sent, and its row stays quiet until its time."""
    world = InMemoryStack(deployment="dev")
    world.add_order()
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    row = world.job(KEY)
    restored = restore_row(row, None, deployment="dev", now=START)
    assert restored is not None
    world.store.compare_and_swap(row, restored)
    world.clock.advance(minutes=1)

    outcomes = sweep(world)

    assert [type(one) for one in outcomes] == [Scheduled]
    assert (world.job(KEY).status, world.job(KEY).due_at) == (Status.READY, MONTH)
    assert world.payments.charges == []
