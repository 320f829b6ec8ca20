"""Rows that a producer inserted with a status of its choice: nothing of them is believed."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from oncely.core.decide import escalate, on_forged_row, on_not_there_yet
from oncely.core.effect_outcomes import Succeeded
from oncely.core.ended_jobs import erase_if_complete, request_erasure
from oncely.core.errors import UnavailableError
from oncely.core.job_row import Decision, JobRow, new_job
from oncely.core.keys import JobKey
from oncely.core.lifecycle import NO_ROW, TRANSITIONS, Event, Status, WaitKind
from oncely.core.outcomes import Duplicate, Unknown
from oncely.core.repairs import Repair, cancel, cancelled_job, resolve_manually
from oncely.core.store import Created
from oncely.gates.gate import PauseAction
from oncely.history.erasure_log import Person
from oncely.history.lines import backfill_line, history_line
from oncely.history.restore import restore_row
from oncely.operate.second_operator import PendingRepair, hold_new_job
from oncely.reconcile.find_due_work import SweepRequest
from tests.support.fakes import FakeMessageSource
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import (
    is_conflict,
    is_duplicate,
    is_finished,
    is_held,
    is_scheduled,
    waits_for_rows,
)
from tests.support.scheduled_charge import ScheduledCharge
from tests.unit.decision_grid import decide_any
from tests.unit.samples import NOW, TERMS

KEY: Final = JobKey("payment.charge:order_18452")
FORGED_ALERT: Final = [f"Oncely: forged row of {KEY}"]
REQUEST: Final = PendingRepair(
    repair=Repair.REOPEN, reference=None, operator="ada", identity="ada", until=NOW
)
# Each has one attribute that no producer can insert.
OURS: Final[dict[str, dict[str, Any]]] = {
    "fence": {"fence": 1},
    "result": {"result": {"code": "cancelled_by_operator"}},
    "last_error": {"last_error": "waited 24 h for its order"},
    "deployment": {"deployment": "d1"},
    "erasure_requested_at": {"erasure_requested_at": NOW, "message": {}},
}


@pytest.fixture
def world() -> InMemoryStack:
    world = InMemoryStack(deployment="d1")
    world.add_order()
    return world


@pytest.fixture(params=[status for status in Status if status is not Status.READY])
def status(request: pytest.FixtureRequest) -> Status:
    chosen: Status = request.param
    return chosen


def enqueued_row(**changes: Any) -> JobRow:  # noqa: ANN401  # fields of a job
    row = new_job(
        KEY,
        "payment.charge",
        {"job": "payment.charge", "v": 1, "order_id": "18452", "amount": 1},
        now=NOW - timedelta(days=900),
        due_at=NOW,
        actor="producer",
        reason="enqueued",
        owner="theirs",
        subject="order_18452",
    )
    return replace(row, **changes)


def test_time_of_forged_row_does_not_hold_its_review(status: Status) -> None:
    forged = enqueued_row(status=status, run_at=NOW + timedelta(days=90))
    assert on_forged_row(forged).apply_to(forged, now=NOW, actor="reconciler").run_at is None


def forge(world: InMemoryStack, status: Status, **changes: Any) -> JobRow:  # noqa: ANN401  # fields of a job
    run_at = NOW + timedelta(days=400)
    row = enqueued_row(status=status, version=70, run_at=run_at, **{"due_at": None, **changes})
    assert isinstance(world.store.create(row), Created)
    return row


def alert_subjects(world: InMemoryStack) -> list[str]:
    return [alert.subject for alert in world.alerts.sent]


def test_message_replaces_forged_row_and_runs_once(world: InMemoryStack, status: Status) -> None:
    forge(world, status, provider_ref="pi_666", key_number=7, pending_repair={"repair": "x"})

    first, second = [world.run(charge_message()) for _ in range(2)]

    assert is_finished(first)
    assert is_duplicate(second)
    assert len(world.payments.charges) == 1
    assert alert_subjects(world) == FORGED_ALERT
    job, clean = world.job(KEY), InMemoryStack(deployment="d1")
    clean.add_order()
    clean.run(charge_message())
    # It has one more token, one more write and the evidence of it.
    differs = {name for name in vars(job) if getattr(job, name) != getattr(clean.job(KEY), name)}
    assert differs == {"owner", "version", "evidence"}
    assert f"it replaces a forged row, which was {status}" in job.evidence[0].reason


@pytest.mark.parametrize("mark", OURS)
def test_row_with_our_mark_is_never_replaced(
    world: InMemoryStack, status: Status, mark: str
) -> None:
    row = forge(world, status, **OURS[mark])

    outcome = world.run(charge_message())

    if status is Status.STARTED:
        assert isinstance(outcome, Unknown), "its lease has expired"
    else:
        assert isinstance(outcome, Duplicate)
        assert outcome.status is status
    assert world.job(KEY).created_at == row.created_at
    assert (world.payments.calls, world.alerts.sent) == ([], [])


@pytest.mark.parametrize("inserted", [Status.READY, Status.UNKNOWN])
def test_unreadable_row_without_mark_is_replaced(world: InMemoryStack, inserted: Status) -> None:
    forge(world, inserted)
    world.store.make_unreadable(KEY)

    assert is_finished(world.run(charge_message()))

    assert alert_subjects(world) == FORGED_ALERT


def test_job_waits_until_alert_is_delivered(world: InMemoryStack, status: Status) -> None:
    """A crash after the write would lose an alert that was to follow it."""
    row = forge(world, status)
    world.alerts.fails = True

    with pytest.raises(UnavailableError, match="no alert was delivered"):
        world.run(charge_message())

    assert (world.job(KEY), world.payments.calls) == (row, [])


def test_early_message_replaces_forged_row(status: Status) -> None:
    world = InMemoryStack()
    forge(world, status)

    assert waits_for_rows(world.run(charge_message()))

    assert (world.job(KEY).status, alert_subjects(world)) == (Status.READY, FORGED_ALERT)
    world.add_order()
    assert is_finished(world.run(charge_message()))


def test_held_message_replaces_forged_row(world: InMemoryStack, status: Status) -> None:
    forge(world, status)
    world.app().pause_switch.change("stripe", PauseAction.PAUSE, actor="ada", reason="prices")

    assert is_held(world.run(charge_message()))

    assert (world.job(KEY).status, alert_subjects(world)) == (Status.READY, FORGED_ALERT)


def test_scheduled_message_replaces_forged_row(world: InMemoryStack, status: Status) -> None:
    key = JobKey("receipt.send:order_18452")
    forge(world, status, job_key=key, job_type="receipt.send")
    run_at = (world.clock.now() + timedelta(hours=1)).isoformat()
    receipt = {"job": "receipt.send", "v": 1, "order_id": "18452", "run_at": run_at}

    assert is_scheduled(world.run(receipt))

    assert world.job(key).status is Status.READY
    assert alert_subjects(world) == [f"Oncely: forged row of {key}"]


def test_early_message_does_not_believe_an_endless_wait() -> None:
    world = InMemoryStack()
    row = enqueued_row(created_at=NOW, message=charge_message())
    waits = on_not_there_yet(row, TERMS, "its order", now=NOW)
    assert waits is not None
    inserted = waits.apply_to(row, now=NOW, actor="producer")
    assert inserted.waits_for is WaitKind.BUSINESS_ROW
    # A producer can insert evidence, but neither of these.
    forged = replace(inserted, waits_for=None, since=None, last_error=None)
    world.store.create(replace(forged, due_at=NOW + timedelta(days=9000)))

    assert waits_for_rows(world.run(charge_message()))

    world.add_order()
    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert world.clock.now() < NOW + timedelta(hours=1)


def test_enqueued_time_survives_forged_row(world: InMemoryStack) -> None:
    key = JobKey("receipt.send:order_18452")
    forge(world, Status.NEEDS_REVIEW, job_key=key, job_type="receipt.send")
    run_at = world.clock.now() + timedelta(hours=1)
    world.enqueuer().enqueue({"job": "receipt.send", "v": 1, "order_id": "18452"}, run_at=run_at)

    assert is_scheduled(world.run(world.outbox.sent.pop()))

    assert world.job(key).run_at == run_at


def test_payment_is_not_enqueued_for_later_over_forged_row() -> None:
    """The message that replaces the row cannot carry the time, so the payment would run now."""
    world = InMemoryStack(contracts=(ScheduledCharge,))
    forge(world, Status.NEEDS_REVIEW)

    with pytest.raises(UnavailableError, match="was not written by Oncely"):
        world.enqueuer().enqueue(charge_message(), run_at=world.clock.now() + timedelta(hours=1))

    assert world.outbox.sent == []


def test_row_whose_message_holds_a_time_needs_review(world: InMemoryStack) -> None:
    """Every message that it sends would be rejected."""
    world.store.create(enqueued_row(message=charge_message(run_at="2026-01-01T00:00:00Z")))

    world.reconcile(KEY)

    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert "holds a time" in str(world.job(KEY).last_error)


def test_dead_letter_replaces_forged_row(world: InMemoryStack, status: Status) -> None:
    forge(world, status)
    handler = world.app(reject_queue=FakeMessageSource()).dead_letter_handler

    handler.handle_batch({"1": json.dumps(charge_message())})

    assert (world.job(KEY).status, alert_subjects(world)[:1]) == (Status.READY, FORGED_ALERT)
    assert world.run_until_idle(KEY).status is Status.FINISHED


def test_refused_message_leaves_forged_row_alone(world: InMemoryStack, status: Status) -> None:
    """Its reason in the row would be a mark of ours, and block the job for ever."""
    row = forge(world, status)

    assert is_conflict(world.run(charge_message(amount=7)))

    assert world.job(KEY) == row
    assert is_finished(world.run(charge_message()))


def test_erasure_of_forged_row_does_not_block_job(world: InMemoryStack, status: Status) -> None:
    forge(world, status, customer_id="customer_7")

    world.app().eraser.erase_tables(Person.parse("customer_7", []), actor="ada")

    assert world.job(KEY).erasure_requested_at is not None
    assert is_finished(world.run(charge_message()))


def test_enqueue_over_forged_row_sends_message(world: InMemoryStack, status: Status) -> None:
    forge(world, status)

    result = world.enqueuer().enqueue(charge_message())

    assert (result.status, result.result, result.sent) == (Status.READY, None, True)
    assert world.enqueuer().status(KEY) is None
    assert is_finished(world.run(world.outbox.sent.pop()))


@pytest.mark.parametrize("due_at", [None, NOW + timedelta(days=9000)])
def test_enqueue_over_row_that_never_sends_sends_message(
    world: InMemoryStack, due_at: datetime | None
) -> None:
    """A producer inserted the right row, and sends nothing."""
    world.store.create(enqueued_row(message=charge_message(), due_at=due_at))

    assert world.enqueuer().enqueue(charge_message()).sent


def test_requested_job_with_forged_row_is_sent(world: InMemoryStack, status: Status) -> None:
    forge(world, status)
    world.clock.advance(hours=1)

    (item,) = world.finder().find(SweepRequest()).items
    world.reconciler().resolve(item.key, message=item.message)

    assert is_finished(world.run(world.outbox.sent.pop()))


def test_unreadable_row_hides_no_requested_job(world: InMemoryStack) -> None:
    forge(world, Status.UNKNOWN)
    world.store.make_unreadable(KEY)
    world.add_order("18453")
    world.clock.advance(hours=1)

    found = world.finder().find(SweepRequest())

    assert len(found.items) == 2
    assert found.error is None


def test_due_forged_row_is_reviewed_and_still_runs(world: InMemoryStack, status: Status) -> None:
    """Nothing is looked up or published because of a status that nobody believes."""
    forge(world, status, due_at=NOW)

    world.reconcile(KEY)

    job = world.job(KEY)
    assert (job.status, job.awaits_message) == (Status.NEEDS_REVIEW, True)
    assert f"it was inserted as {status}" in str(job.last_error)
    assert (world.payments.calls, world.bus.published, world.outbox.sent) == ([], [], [])
    assert alert_subjects(world) == [f"Oncely: {KEY} needs review"]
    assert is_finished(world.run(charge_message()))


def test_forged_failure_allows_no_resubmission(world: InMemoryStack) -> None:
    forge(world, Status.FAILED)

    outcome = world.run(charge_message(attempt=2))

    assert is_conflict(outcome)
    assert "must have failed, it is not there" in outcome.reason
    assert world.payments.calls == []


def rows_of_ours() -> dict[str, JobRow]:
    """Every way out of `ready` without a claim, and what may follow."""
    first, now = enqueued_row(), NOW
    line = history_line(None, first, generation="T1", at=now)

    def after(job: JobRow, decision: Decision) -> JobRow:
        return decision.apply_to(job, now=now, actor="operator:ada")

    review = after(first, escalate("waited for its order"))
    restored = restore_row(None, line, deployment="d1", now=now)
    assert restored is not None
    marked = resolve_manually(review, Repair.MARK_FINISHED, reason="seen", reference=None)
    confirmed = decide_any(restored, TERMS, Succeeded("found", "pi_1", {}), now=now)
    absent = cancelled_job(
        KEY, "payment.charge", now=now, actor="a", reason="twice", retention=timedelta(days=1)
    )
    found = {
        "escalated": review,
        "cancelled": replace(after(first, cancel("twice")), due_at=None),
        "cancelled absent": absent,
        "requested": hold_new_job(first, REQUEST, actor="operator:ada", reason="a call"),
        "restored": restored,
        "marked": replace(after(review, marked), due_at=None),
        "confirmed": after(restored, confirmed),
        "reviewed": after(replace(first, status=Status.UNKNOWN), on_forged_row(first)),
    }
    erased = {
        f"{name}, erased": erase_if_complete(after(job, request_erasure(now)))
        for name, job in found.items()
    }
    archived = {
        f"{name}, archived": restored
        for name, job in {**found, **erased}.items()
        for line in [history_line(None, job, generation="T1", at=now)]
        if (restored := restore_row(None, line, deployment="d1", now=now))
    }
    return {**found, **erased, **archived}


@pytest.mark.parametrize("name", rows_of_ours())
def test_row_of_ours_keeps_mark(name: str) -> None:
    job = rows_of_ours()[name]
    assert (job.was_claimed, job.is_forged) == (False, False)


def test_walk_knows_every_way_out_of_ready() -> None:
    """A new one must leave a mark, and be in `rows_of_ours`."""
    ways = {
        event
        for (source, event), target in TRANSITIONS.items()
        if source in {NO_ROW, Status.READY} and target is not Status.READY
    }
    assert ways == {Event.CLAIM, Event.ESCALATE, Event.CANCEL, Event.REQUEST, Event.RESTORE}


def test_forged_row_is_in_no_history(status: Status) -> None:
    """Its times are chosen: a line from the future would hide the proof of the real job."""
    row, ours = enqueued_row(status=status), enqueued_row(fence=1)

    assert history_line(None, row, generation="T1", at=NOW) is None
    line = history_line(row, ours, generation="T1", at=NOW)
    assert line is not None
    assert line.old_status is None


def test_restore_leaves_forged_row_to_next_message(status: Status) -> None:
    row = enqueued_row(status=status, created_at=NOW + timedelta(days=9000))
    finished = enqueued_row(status=Status.FINISHED, fence=1, result={}, version=3)
    line = backfill_line(finished, generation="T1")

    assert restore_row(row, None, deployment="d1", now=NOW) is None
    restored = restore_row(row, line, deployment="d1", now=NOW)
    assert restored is not None
    assert restored.status is Status.FINISHED
