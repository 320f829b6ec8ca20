"""Dead letters: each has a known state, and an outage does not send every job to review."""

import json
from dataclasses import replace
from datetime import timedelta

from oncely.core.decide import DEAD_LETTER_RETRY_DELAY
from oncely.core.errors import UnavailableError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.run.dead_letters import DeadLetterOutcome, HandledDeadLetter
from tests.support.crash_points import InterruptingPort
from tests.support.fakes import FakeMessageSource
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished
from tests.support.provider_fault import ProviderFault

KEY = JobKey("payment.charge:order_18452")
BODY = json.dumps(charge_message())


def handle_dead_letters(
    world: InMemoryStack, *bodies: str, inbox: FakeMessageSource | None = None
) -> list[HandledDeadLetter]:
    handler = world.app(reject_queue=inbox or FakeMessageSource()).dead_letter_handler
    return handler.handle_batch({str(number): body for number, body in enumerate(bodies)})


def outcome(world: InMemoryStack, body: str = BODY) -> DeadLetterOutcome:
    (handled,) = handle_dead_letters(world, body)
    return handled.outcome


def test_unclaimed_message_becomes_ready_row_that_is_due(world: InMemoryStack) -> None:
    assert outcome(world) is DeadLetterOutcome.RETRY_SCHEDULED
    assert world.job(KEY).status is Status.READY
    assert world.job(KEY).message["order_id"] == "18452"
    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]


def test_time_until_run_time_is_no_outage(world: InMemoryStack) -> None:
    """Its message is dead-lettered two days early, and once more an hour after its time."""
    key, run_at = JobKey("receipt.send:order_18452"), world.clock.now() + timedelta(days=2)
    message = {"job": "receipt.send", "v": 1, "order_id": "18452"}
    body = json.dumps({**message, "run_at": run_at.isoformat()})
    assert outcome(world, body) is DeadLetterOutcome.RETRY_SCHEDULED
    assert not world.job(key).is_stranded

    world.clock.time = run_at + timedelta(hours=1)
    assert outcome(world, body) is DeadLetterOutcome.RETRY_SCHEDULED
    assert world.job(key).status is Status.READY


def test_ready_row_is_retried_later(world: InMemoryStack) -> None:
    world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())
    due = world.job(KEY).due_at

    assert outcome(world) is DeadLetterOutcome.RETRY_SCHEDULED
    assert due is not None
    assert (world.job(KEY).due_at or due) > due


def test_dead_letter_of_ended_job_changes_nothing(world: InMemoryStack) -> None:
    world.run(charge_message())
    before = world.job(KEY)
    assert outcome(world) is DeadLetterOutcome.ALREADY_TRACKED
    assert world.job(KEY) == before


def test_repeated_dead_letter_without_claim_needs_review(world: InMemoryStack) -> None:
    handle_dead_letters(world, BODY)
    world.clock.advance(hours=7)
    world.alerts.sent.clear()

    assert outcome(world) is DeadLetterOutcome.NEEDS_REVIEW
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert [alert.subject for alert in world.alerts.sent] == [f"Oncely: {KEY} needs review"]


def test_outage_of_some_hours_needs_no_review(world: InMemoryStack) -> None:
    for _ in range(5):
        handle_dead_letters(world, BODY)
        world.clock.advance(hours=1)
    assert world.run_until_idle(KEY).status is Status.FINISHED


def test_claim_between_dead_letters_restarts_outage(world: InMemoryStack) -> None:
    handle_dead_letters(world, BODY)
    world.clock.advance(hours=7)
    world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())

    assert outcome(world) is DeadLetterOutcome.RETRY_SCHEDULED
    assert is_finished(world.run(charge_message()))


def test_invalid_message_goes_to_rejects_queue(world: InMemoryStack) -> None:
    inbox = FakeMessageSource()
    (handled,) = handle_dead_letters(world, "not JSON", inbox=inbox)
    assert handled.outcome is DeadLetterOutcome.REJECTED
    assert inbox.rejected[0][0] == "not JSON"


def test_dead_letter_is_redelivered_when_alert_fails(world: InMemoryStack) -> None:
    inbox = FakeMessageSource()
    world.alerts.fails = True
    first = handle_dead_letters(world, BODY, "not JSON", inbox=inbox)
    row = world.job(KEY)
    world.clock.advance(minutes=6)
    world.alerts.fails = False

    tracked, rejected = handle_dead_letters(world, BODY, "not JSON", inbox=inbox)

    assert [handled.outcome for handled in first] == [DeadLetterOutcome.LEFT_IN_QUEUE] * 2
    assert tracked.outcome is DeadLetterOutcome.ALREADY_TRACKED
    assert rejected.outcome is DeadLetterOutcome.REJECTED
    assert world.job(KEY) == row
    assert len(inbox.rejected) == 1
    assert [alert.subject for alert in world.alerts.sent] == ["Oncely: 2 dead letters"]


def test_dead_letter_after_resend_waits_from_now(world: InMemoryStack) -> None:
    handle_dead_letters(world, BODY)
    world.clock.advance(minutes=30)
    world.reconcile(KEY)
    world.alerts.sent.clear()

    assert outcome(world) is DeadLetterOutcome.RETRIED_AGAIN
    assert world.alerts.sent == [], "operators know it from its first dead letter"
    assert world.job(KEY).due_at == world.clock.now() + DEAD_LETTER_RETRY_DELAY


def test_dead_letter_stays_without_alert_when_store_fails(world: InMemoryStack) -> None:
    def fail() -> None:
        raise UnavailableError("DynamoDB gave no answer")

    world.store = InterruptingPort(world.store, "get", fail)

    assert outcome(world) is DeadLetterOutcome.LEFT_IN_QUEUE
    assert world.alerts.sent == []


def test_unreadable_row_does_not_block_other_dead_letters(world: InMemoryStack) -> None:
    rows = iter(["unreadable"])

    def read() -> None:
        if next(rows, None):
            raise ValueError("no such status")

    world.store = InterruptingPort(world.store, "get", read)
    bodies = (json.dumps(charge_message(order)) for order in ("1", "2", "3"))

    unreadable, *others = handle_dead_letters(world, *bodies)

    assert unreadable.outcome is DeadLetterOutcome.LEFT_IN_QUEUE
    assert "no such status" in unreadable.reason
    assert [handled.outcome for handled in others] == [DeadLetterOutcome.RETRY_SCHEDULED] * 2
    assert len(world.alerts.sent) == 1, "one for the whole batch"


class _FailingRejectSource(FakeMessageSource):
    def reject(
        self, body: str, *, reason: str, message_id: str, job_key: str | None = None
    ) -> None:
        raise OSError("the rejects queue does not answer")


def test_failed_reject_does_not_block_other_dead_letters(world: InMemoryStack) -> None:
    bad, good = handle_dead_letters(world, "not JSON", BODY, inbox=_FailingRejectSource())
    assert bad.outcome is DeadLetterOutcome.LEFT_IN_QUEUE
    assert good.outcome is DeadLetterOutcome.RETRY_SCHEDULED


def test_alert_names_job_by_key_and_other_message_by_id(world: InMemoryStack) -> None:
    handle_dead_letters(world, BODY, "not JSON")

    (alert,) = world.alerts.sent
    names = [line.rpartition(": ")[0] for line in alert.text.splitlines()[1:3]]
    assert names[0] == KEY
    assert names[1].startswith("1: ")


def test_dead_letter_stays_in_queue_when_row_keeps_changing(world: InMemoryStack) -> None:
    handle_dead_letters(world, BODY)
    world.clock.advance(hours=1)
    world.reconcile(KEY)
    world.alerts.sent.clear()
    store, reads = world.store, iter(range(99))

    def change_owner() -> None:
        store.jobs[KEY] = replace(store.jobs[KEY], owner=f"owner-{next(reads)}")

    world.store = InterruptingPort(store, "get", change_owner)

    (handled,) = handle_dead_letters(world, BODY)

    assert (handled.outcome, next(reads)) == (DeadLetterOutcome.LEFT_IN_QUEUE, 5)
    assert "kept changing" in handled.reason
    assert world.alerts.sent == []
