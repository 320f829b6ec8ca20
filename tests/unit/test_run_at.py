"""`run_at`: no worker runs the job earlier, and no queue message holds or moves a payment."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from oncely.contracts.job import AnyJob
from oncely.core.decide import DEAD_LETTER_RETRY_DELAY, MESSAGE_GRACE
from oncely.core.due import on_dead_letter
from oncely.core.ended_jobs import MONEY_RETENTION
from oncely.core.errors import InvalidMessageError
from oncely.core.job_row import JobRow, new_job
from oncely.core.keys import JobKey, job_type_of
from oncely.core.lifecycle import Event, Status
from oncely.core.outcomes import RunOutcome
from oncely.core.repairs import Repair
from oncely.core.schedule import DEFAULT_SCHEDULE_LIMIT, SCHEDULE_TOLERANCE
from oncely.core.text import format_time
from oncely.gates.gate import PauseAction
from oncely.history.lines import HistoryLine, history_line
from oncely.history.restore import restore_row
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptSend
from oncely.jobs.sync_contact import SyncContact
from oncely.operate.repair_request import Repaired
from oncely.reconcile.find_due_work import SweepRequest
from oncely.run.dead_letters import DeadLetterOutcome
from oncely.run.process_batch import Ack, Nack, action_for
from tests.support.crash_points import InterruptingPort
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_duplicate, is_finished, is_invalid, is_scheduled
from tests.support.repairs import repair_job
from tests.support.scheduled_charge import ScheduledCharge
from tests.unit.samples import KEY

MONTH = START + timedelta(days=30)
WEEK = START + timedelta(days=7)
IN_2028 = datetime(2028, 6, 1, 9, tzinfo=UTC)
SWEEP = timedelta(minutes=1)
LIMIT = ScheduledCharge.schedule_limit
RECEIPT = {"job": "receipt.send", "v": 1, "order_id": "18452"}
RECEIPT_KEY = JobKey("receipt.send:order_18452")


@pytest.fixture
def world() -> InMemoryStack:
    """A stack whose charges may be scheduled by whoever inserts the row."""
    return with_order(InMemoryStack(contracts=(ScheduledCharge, ReceiptSend)))


@pytest.fixture
def shipped() -> InMemoryStack:
    """A stack with the shipped contracts: no time is honored for a payment."""
    return with_order(InMemoryStack())


@pytest.fixture
def mail() -> InMemoryStack:
    """A stack with a job that moves no money."""
    stack = InMemoryStack(contracts=(ReceiptSend,))
    stack.add_order(status="paid", charge_id="ch_1")
    return stack


def with_order(stack: InMemoryStack) -> InMemoryStack:
    stack.add_order()
    return stack


def deliver(world: InMemoryStack, **more: object) -> RunOutcome:
    return world.run({**charge_message(), **more})


def deliver_receipt(world: InMemoryStack, **more: object) -> RunOutcome:
    return world.run({**RECEIPT, **more})


def sweep(world: InMemoryStack) -> list[RunOutcome]:
    """One sweep, and the messages that it sends."""
    for item in world.finder().find(SweepRequest()).items:
        world.reconcile(item.key)
    sent, world.outbox.sent = world.outbox.sent, []
    return [world.run(body) for body in sent]


def insert_row(
    world: InMemoryStack, run_at: datetime, key: JobKey = KEY, due_at: datetime | None = None
) -> JobRow:
    """Insert a row as whoever holds the producer policy can: with any time."""
    message = charge_message() if key == KEY else RECEIPT
    row = new_job(
        key,
        job_type_of(key),
        {name: str(value) if name != "v" else 1 for name, value in message.items()},
        now=START,
        due_at=due_at or run_at,
        actor="producer",
        reason="enqueued",
        run_at=run_at,
    )
    world.store.create(row)
    return row


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
    assert is_finished(outcome)
    assert world.alerts.sent == []


@pytest.mark.parametrize("has_order", [True, False])
def test_message_with_time_does_not_hold_charge(*, has_order: bool) -> None:
    """Its order may not even exist yet. The genuine message charges at once."""
    world = InMemoryStack()
    if has_order:
        world.add_order()

    outcome = deliver(world, run_at=format_time(IN_2028))

    assert is_invalid(outcome)
    assert "a message cannot set the time of a job that moves money" in outcome.reason
    assert world.store.jobs == {}
    world.add_order()
    assert is_finished(deliver(world))


def test_rejected_time_says_who_may_set_it(world: InMemoryStack, shipped: InMemoryStack) -> None:
    held = deliver(world, run_at=format_time(WEEK))
    assert is_invalid(held)
    assert "create_producer(…).enqueue(…, run_at=…)" in held.reason
    assert "an operator" in held.reason
    none = deliver(shipped, run_at=format_time(WEEK))
    assert is_invalid(none)
    assert "send it without run_at, when it should run" in none.reason


@pytest.mark.parametrize("time", [START, WEEK, IN_2028])
def test_message_does_not_move_time_of_charge(world: InMemoryStack, time: datetime) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    before = world.job(KEY)

    moved = deliver(world, run_at=format_time(time))
    plain = deliver(world)

    assert is_invalid(moved)
    assert is_scheduled(plain)
    assert action_for(plain, near_receive_limit=False) == Ack()
    assert (world.job(KEY), world.payments.calls) == (before, [])


def test_early_plain_message_cannot_run_it(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    world.clock.time = MONTH - timedelta(milliseconds=1)
    assert is_scheduled(deliver(world))
    assert (world.payments.calls, world.job(KEY).version) == ([], 1)


def test_dead_letter_with_time_does_not_hold_charge(shipped: InMemoryStack) -> None:
    body = json.dumps({**charge_message(), "run_at": format_time(IN_2028)})
    (handled,) = shipped.app(reject_queue=_Rejects()).dead_letter_handler.handle_batch({"1": body})
    assert handled.outcome is DeadLetterOutcome.REJECTED
    assert shipped.store.jobs == {}


class _Rejects:
    def reject(self, body: str, **_: object) -> None:
        assert body


@pytest.mark.parametrize("time", [START + timedelta(minutes=1), IN_2028])
def test_time_in_row_of_charge_is_not_honored(shipped: InMemoryStack, time: datetime) -> None:
    """IAM limits which attributes a producer inserts, not their values."""
    insert_row(shipped, time)

    assert is_finished(deliver(shipped))
    assert is_duplicate(deliver(shipped))

    (alert,) = shipped.alerts.sent
    assert alert.subject == f"Oncely: the run time of {KEY} is not honored"
    assert alert.text.startswith("The job was not held back")


def test_time_beyond_limit_is_not_honored(world: InMemoryStack, mail: InMemoryStack) -> None:
    insert_row(world, START + LIMIT + SCHEDULE_TOLERANCE + SWEEP)
    assert is_finished(deliver(world))
    assert len(world.alerts.sent) == 1
    insert_row(mail, START + DEFAULT_SCHEDULE_LIMIT + SCHEDULE_TOLERANCE + SWEEP, RECEIPT_KEY)
    assert is_finished(deliver_receipt(mail))
    assert len(mail.alerts.sent) == 1


def test_producer_clock_may_be_ahead(world: InMemoryStack) -> None:
    insert_row(world, START + LIMIT + SCHEDULE_TOLERANCE)
    assert is_scheduled(deliver(world))
    assert world.alerts.sent == []


def test_enqueue_sends_message_for_row_with_unhonored_time(shipped: InMemoryStack) -> None:
    """Otherwise the row that somebody else inserted would hold the charge until 2028."""
    insert_row(shipped, IN_2028)

    result = shipped.enqueuer().enqueue(charge_message())

    assert (result.created, result.sent, result.run_at) == (False, True, None)
    assert is_finished(shipped.run(shipped.outbox.sent[0]))


def test_row_that_is_due_too_late_is_due_at_its_time(world: InMemoryStack) -> None:
    insert_row(world, MONTH, due_at=IN_2028)
    assert world.enqueuer().enqueue(charge_message()).sent
    assert is_scheduled(deliver(world))
    assert (world.job(KEY).run_at, world.job(KEY).due_at) == (MONTH, MONTH)


def test_pause_does_not_move_scheduled_job(world: InMemoryStack) -> None:
    """Its row would be due until then, and each sweep would look at it."""
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    before = world.job(KEY)
    world.app().pause_switch.change("payment.charge", PauseAction.PAUSE, actor="ada", reason="why")
    assert is_scheduled(deliver(world))
    assert world.job(KEY) == before


def test_early_message_that_lost_a_race_comes_back_at_once(world: InMemoryStack) -> None:
    """Its row is still due too late, and nothing else would correct that."""
    insert_row(world, MONTH, due_at=IN_2028)

    def note() -> None:
        row = world.job(KEY)
        world.store.swap(row, row.apply(Event.NOTE, now=START, actor="another", reason="seen"))

    racing = InterruptingPort(world.store, "claim", note)
    lost = world.run(charge_message(), runner=world.runner(store=racing))

    assert action_for(lost, near_receive_limit=False) == Nack(world.clock.now())
    assert is_scheduled(deliver(world))
    assert world.job(KEY).due_at == MONTH


def test_unhonored_time_blocks_no_repair(shipped: InMemoryStack) -> None:
    insert_row(shipped, IN_2028)
    view = shipped.inspector().get(KEY)
    assert view is not None
    assert view.headline == (
        "Not charged yet. Its run time, 2028-06-01 09:00 UTC, is not honored: the next message "
        "runs it."
    )
    assert (view.to_json()["run_at"], view.next_step) == (None, "Resend its message.")
    allowed = {one.repair for one in view.repairs if one.allowed}
    assert allowed == {Repair.RESEND, Repair.CANCEL}
    assert isinstance(repair_job(shipped, Repair.RESEND), Repaired)
    assert is_finished(shipped.run(shipped.outbox.sent[0]))


def test_unhonored_time_does_not_move_age(shipped: InMemoryStack) -> None:
    """Its order never comes: it needs review after the grace period, not after 2028."""
    shipped.rows.clear()
    insert_row(shipped, IN_2028)
    deliver(shipped)
    assert shipped.run_until_idle(KEY).status is Status.NEEDS_REVIEW
    assert shipped.clock.now() < START + timedelta(days=1)


def test_unhonored_time_of_dead_letter_is_not_kept(shipped: InMemoryStack) -> None:
    row = insert_row(shipped, IN_2028)
    decision = on_dead_letter(row, timedelta(0), START)
    assert decision is not None
    assert decision.changes["due_at"] == START + DEAD_LETTER_RETRY_DELAY


@pytest.mark.parametrize("time", [IN_2028, datetime.max.replace(tzinfo=UTC)])
def test_unhonored_time_does_not_prolong_proof(shipped: InMemoryStack, time: datetime) -> None:
    insert_row(shipped, time)
    deliver(shipped)
    shipped.publisher().publish(KEY)
    assert shipped.job(KEY).expires_at == START + MONEY_RETENTION


def test_proof_of_cancelled_job_with_any_time_expires(shipped: InMemoryStack) -> None:
    insert_row(shipped, datetime.max.replace(tzinfo=UTC))
    assert isinstance(repair_job(shipped, Repair.CANCEL), Repaired)


def test_message_with_time_makes_row_and_is_acked(mail: InMemoryStack) -> None:
    outcome = deliver_receipt(mail, run_at=format_time(MONTH))

    assert is_scheduled(outcome)
    assert (outcome.until, outcome.redeliver) == (MONTH, False)
    assert action_for(outcome, near_receive_limit=False) == Ack()
    assert (mail.job(RECEIPT_KEY).run_at, mail.job(RECEIPT_KEY).fence) == (MONTH, 0)
    mail.clock.time = MONTH
    assert [is_finished(one) for one in sweep(mail)] == [True]


@pytest.mark.parametrize("time", [START, WEEK, MONTH + timedelta(days=1)])
def test_later_message_does_not_move_time(mail: InMemoryStack, time: datetime) -> None:
    deliver_receipt(mail, run_at=format_time(MONTH))
    before = mail.job(RECEIPT_KEY)
    assert is_scheduled(deliver_receipt(mail, run_at=format_time(time)))
    assert mail.job(RECEIPT_KEY) == before


def test_time_of_message_is_ignored_when_row_exists(mail: InMemoryStack) -> None:
    mail.enqueuer().enqueue(RECEIPT)
    assert is_finished(deliver_receipt(mail, run_at=format_time(MONTH)))
    assert is_duplicate(deliver_receipt(mail, run_at=format_time(MONTH)))


def test_job_that_runs_later_needs_no_business_rows_yet() -> None:
    mail = InMemoryStack(contracts=(ReceiptSend,))
    deliver_receipt(mail, run_at=format_time(MONTH))
    mail.clock.time = WEEK
    assert is_scheduled(deliver_receipt(mail)), "it does not wait for rows yet"
    mail.clock.time = MONTH
    mail.add_order(status="paid", charge_id="ch_1")
    assert [is_finished(one) for one in sweep(mail)] == [True]


def test_second_enqueue_keeps_first_time(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    before = world.job(KEY)

    again = world.enqueuer().enqueue(charge_message(), run_at=WEEK)

    assert (again.created, again.sent, again.run_at) == (False, False, MONTH)
    assert world.job(KEY) == before


def test_time_is_not_in_fingerprint(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=WEEK)
    world.clock.time = WEEK
    sweep(world)
    assert world.job(KEY).status is Status.FINISHED
    assert world.job(KEY).message == charge_message()


def test_time_is_no_business_value() -> None:
    contact = SyncContact(source="hubspot", source_id="4419", event_id="evt-1")
    later = contact.model_copy(update={"run_at": WEEK})
    assert later.business_values() == contact.business_values()


def test_age_counts_from_time_to_run(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    row = world.job(KEY)
    assert row.age_starts_at(MONTH) == MONTH
    assert row.past_max_age(timedelta(hours=24), MONTH + timedelta(hours=23)) is None
    assert row.past_max_age(timedelta(hours=24), MONTH + timedelta(hours=25))


def test_time_that_has_not_come_moves_no_age(world: InMemoryStack) -> None:
    """A producer may insert any time, and a job must not stay young because of it."""
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    row = world.job(KEY)
    assert row.age_starts_at(WEEK) == row.began_at(WEEK) == row.created_at


def test_early_row_that_became_due_waits_again(world: InMemoryStack) -> None:
    """A restore or a race may leave an early due time, when the job looks too old."""
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    row = world.job(KEY)
    world.store.swap(row, row.apply(Event.NOTE, now=START, actor="test", reason="due", due_at=WEEK))
    world.clock.time = WEEK
    assert sweep(world) == []
    assert (world.job(KEY).status, world.job(KEY).due_at) == (Status.READY, MONTH)


def test_dead_letter_of_scheduled_job_keeps_its_time(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    row = world.job(KEY)
    assert on_dead_letter(row, LIMIT, START) is None
    decision = on_dead_letter(row, LIMIT, MONTH)
    assert decision is not None
    assert decision.changes["due_at"] == MONTH + DEAD_LETTER_RETRY_DELAY


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
def test_time_without_zone_is_rejected(mail: InMemoryStack, text: object) -> None:
    outcome = deliver_receipt(mail, run_at=text)
    assert is_invalid(outcome)
    assert "run_at" in outcome.reason


def test_message_with_time_beyond_limit_is_rejected(mail: InMemoryStack) -> None:
    far = START + DEFAULT_SCHEDULE_LIMIT + timedelta(seconds=1)
    outcome = deliver_receipt(mail, run_at=format_time(far))
    assert is_invalid(outcome)
    assert "more than 365 days ahead" in outcome.reason
    assert mail.store.jobs == {}


def test_enqueue_beyond_limit_raises(world: InMemoryStack, shipped: InMemoryStack) -> None:
    with pytest.raises(InvalidMessageError, match="more than 120 days ahead"):
        world.enqueuer().enqueue(charge_message(), run_at=START + LIMIT + SWEEP)
    with pytest.raises(InvalidMessageError, match=r"payment\.charge honors no run_at"):
        shipped.enqueuer().enqueue(charge_message(), run_at=START + SWEEP)
    assert (world.store.jobs, shipped.store.jobs) == ({}, {})


def test_past_time_runs_at_once(shipped: InMemoryStack) -> None:
    result = shipped.enqueuer().enqueue(charge_message(), run_at=START - timedelta(days=1))
    assert (result.sent, result.run_at) == (True, None)
    assert is_finished(shipped.run(shipped.outbox.sent[0]))


class Reminding(PaymentCharge):
    """A receipt follows a week later."""

    def follow_ups(self, row: JobRow) -> tuple[AnyJob, ...]:
        return (ReceiptSend.model_validate({**RECEIPT, "run_at": WEEK}),)


def test_follow_up_keeps_its_time() -> None:
    world = with_order(InMemoryStack(contracts=(Reminding, ReceiptSend)))
    deliver(world)
    world.publisher().publish(KEY)
    (body,) = world.outbox.sent
    assert is_scheduled(world.run(body))
    assert world.job(RECEIPT_KEY).run_at == WEEK


def test_restored_job_keeps_its_time(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    line = history_line(None, world.job(KEY), generation="T1", at=START)
    assert line is not None
    assert HistoryLine.from_dict(line.to_dict()) == line

    restored = restore_row(None, line, deployment="dev", now=WEEK)

    assert restored is not None
    assert (restored.run_at, restored.age_starts_at(MONTH)) == (MONTH, MONTH)


def test_restored_job_waits_for_its_time_again(world: InMemoryStack) -> None:
    """It is looked up, was never sent, and its row stays quiet until its time."""
    world.deployment = "dev"
    world.enqueuer().enqueue(charge_message(), run_at=MONTH)
    row = world.job(KEY)
    restored = restore_row(row, None, deployment="dev", now=START)
    assert restored is not None
    world.store.swap(row, restored)
    world.clock.advance(minutes=1)

    outcomes = sweep(world)

    assert [is_scheduled(one) for one in outcomes] == [True]
    assert (world.job(KEY).status, world.job(KEY).due_at) == (Status.READY, MONTH)
    assert world.payments.charges == []


def test_message_is_underway_until_row_is_due(shipped: InMemoryStack) -> None:
    """A second enqueue sends nothing: the first message is on its way, or the sweep resends it."""
    shipped.enqueuer().enqueue(charge_message())
    assert shipped.job(KEY).due_at == START + MESSAGE_GRACE
    assert not shipped.enqueuer().enqueue(charge_message()).sent
