"""Dead letters: a known state for each, and no mass of reviews after an outage."""

import json
from dataclasses import replace

from oncely.domain.decisions import DEAD_LETTER_RETRY_DELAY
from oncely.domain.errors import UnavailableError
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.run.dead_letters import DeadLetterHandler, DeadLetterOutcome, HandledDeadLetter
from oncely.run.outcomes import Finished
from tests.support.crash_points import InterruptingPort
from tests.support.fakes import FakeMessageSource
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.payments import PaymentFault

KEY = JobKey("payment.charge:order_18452")


def handle_dead_letters(
    world: InMemoryStack, *bodies: str, inbox: FakeMessageSource | None = None
) -> list[HandledDeadLetter]:
    letters = DeadLetterHandler(
        registry=world.registry,
        store=world.store,
        notifier=world.alerts,
        message_source=inbox or FakeMessageSource(),
        clock=world.clock,
        guard=world.table_guard,
    )
    return letters.handle_batch({str(number): body for number, body in enumerate(bodies)})


def test_unclaimed_message_becomes_ready_row_that_is_due(world: InMemoryStack) -> None:
    (letter,) = handle_dead_letters(world, json.dumps(charge_message()))
    job = world.job(KEY)
    finished = world.run_until_idle(KEY)

    assert letter.outcome is DeadLetterOutcome.RETRY_SCHEDULED
    assert job.status is Status.READY
    assert job.message["order_id"] == "18452"
    assert finished.status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]


def test_ready_row_is_retried_later(world: InMemoryStack) -> None:
    world.payments.fail_next("prepare", PaymentFault.REFUSED_CONNECTION)
    world.run(charge_message())
    due = world.job(KEY).due_at

    (letter,) = handle_dead_letters(world, json.dumps(charge_message()))

    assert letter.outcome is DeadLetterOutcome.RETRY_SCHEDULED
    assert due is not None
    assert (world.job(KEY).due_at or due) > due


def test_dead_letter_of_ended_job_changes_nothing(world: InMemoryStack) -> None:
    world.run(charge_message())
    before = world.job(KEY)

    (letter,) = handle_dead_letters(world, json.dumps(charge_message()))

    assert letter.outcome is DeadLetterOutcome.ALREADY_TRACKED
    assert world.job(KEY) == before


def test_repeated_dead_letter_without_claim_needs_review() -> None:
    world = InMemoryStack()
    handle_dead_letters(world, json.dumps(charge_message()))
    world.clock.advance(hours=7)

    (letter,) = handle_dead_letters(world, json.dumps(charge_message()))

    assert letter.outcome is DeadLetterOutcome.NEEDS_REVIEW
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_outage_of_some_hours_needs_no_review(world: InMemoryStack) -> None:
    for _ in range(5):
        handle_dead_letters(world, json.dumps(charge_message()))
        world.clock.advance(hours=1)

    assert world.run_until_idle(KEY).status is Status.FINISHED


def test_claim_between_dead_letters_restarts_outage(world: InMemoryStack) -> None:
    handle_dead_letters(world, json.dumps(charge_message()))
    world.clock.advance(hours=7)
    world.payments.fail_next("prepare", PaymentFault.REFUSED_CONNECTION)
    world.run(charge_message())

    (letter,) = handle_dead_letters(world, json.dumps(charge_message()))

    assert letter.outcome is DeadLetterOutcome.RETRY_SCHEDULED
    assert isinstance(world.run(charge_message()), Finished)


def test_invalid_message_goes_to_rejects_queue() -> None:
    world = InMemoryStack()
    inbox = FakeMessageSource()

    (letter,) = handle_dead_letters(world, "not JSON", inbox=inbox)

    assert letter.outcome is DeadLetterOutcome.REJECTED
    assert inbox.rejected[0][0] == "not JSON"


def test_dead_letter_is_redelivered_when_alert_fails() -> None:
    world = InMemoryStack()
    inbox = FakeMessageSource()
    world.alerts.fails = True
    first = handle_dead_letters(world, json.dumps(charge_message()), "not JSON", inbox=inbox)
    row = world.job(KEY)
    world.clock.advance(minutes=6)
    world.alerts.fails = False

    again = handle_dead_letters(world, json.dumps(charge_message()), "not JSON", inbox=inbox)

    assert [letter.outcome for letter in first] == [
        DeadLetterOutcome.LEFT_IN_QUEUE,
        DeadLetterOutcome.LEFT_IN_QUEUE,
    ]
    assert [letter.outcome for letter in again] == [
        DeadLetterOutcome.ALREADY_TRACKED,
        DeadLetterOutcome.REJECTED,
    ]
    assert world.job(KEY) == row
    assert len(inbox.rejected) == 1
    assert [alert.subject for alert in world.alerts.sent] == ["Oncely: 2 dead letters"]


def test_dead_letter_after_resend_waits_from_now(world: InMemoryStack) -> None:
    handle_dead_letters(world, json.dumps(charge_message()))
    world.clock.advance(minutes=30)
    world.reconcile(KEY)

    (letter,) = handle_dead_letters(world, json.dumps(charge_message()))

    assert letter.outcome is DeadLetterOutcome.RETRY_SCHEDULED
    assert world.job(KEY).due_at == world.clock.now() + DEAD_LETTER_RETRY_DELAY


def test_dead_letter_stays_without_alert_when_store_fails() -> None:
    world = InMemoryStack()
    world.store = InterruptingPort(world.store, "get", _no_answer)

    (letter,) = handle_dead_letters(world, json.dumps(charge_message()))

    assert letter.outcome is DeadLetterOutcome.LEFT_IN_QUEUE
    assert world.alerts.sent == []


def test_unreadable_row_does_not_block_other_dead_letters() -> None:
    world = InMemoryStack()
    rows = iter(["unreadable"])

    def read() -> None:
        if next(rows, None):
            raise ValueError("no such status")

    world.store = InterruptingPort(world.store, "get", read)

    poisoned, *neighbours = handle_dead_letters(
        world, *(json.dumps(charge_message(one)) for one in ("1", "2", "3"))
    )

    assert poisoned.outcome is DeadLetterOutcome.LEFT_IN_QUEUE
    assert "no such status" in poisoned.reason
    assert [letter.outcome for letter in neighbours] == [
        DeadLetterOutcome.RETRY_SCHEDULED,
        DeadLetterOutcome.RETRY_SCHEDULED,
    ]
    assert len(world.alerts.sent) == 1


def test_review_sends_one_alert_of_its_own() -> None:
    world = InMemoryStack()
    handle_dead_letters(world, json.dumps(charge_message()))
    world.clock.advance(hours=7)
    world.alerts.sent.clear()

    handle_dead_letters(world, json.dumps(charge_message()))

    assert [alert.subject for alert in world.alerts.sent] == [f"Oncely: {KEY} needs review"]


def test_batch_sends_one_alert() -> None:
    world = InMemoryStack()

    handle_dead_letters(world, *[json.dumps(charge_message(str(number))) for number in range(10)])

    assert len(world.alerts.sent) == 1


def _no_answer() -> None:
    raise UnavailableError("DynamoDB gave no answer")


class _FailingRejectSource(FakeMessageSource):
    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        raise OSError("the rejects queue does not answer")


def test_failed_reject_does_not_block_other_dead_letters() -> None:
    world = InMemoryStack()

    bad, good = handle_dead_letters(
        world, "not JSON", json.dumps(charge_message()), inbox=_FailingRejectSource()
    )

    assert bad.outcome is DeadLetterOutcome.LEFT_IN_QUEUE
    assert good.outcome is DeadLetterOutcome.RETRY_SCHEDULED


def test_alert_names_job_by_key_and_other_message_by_id() -> None:
    world = InMemoryStack()

    handle_dead_letters(world, json.dumps(charge_message()), "not JSON")

    (alert,) = world.alerts.sent
    names = [line.rpartition(": ")[0] for line in alert.text.splitlines()[1:3]]
    assert names[0] == KEY
    assert names[1].startswith("1: ")


def test_dead_letter_stays_in_queue_when_row_keeps_changing() -> None:
    world = InMemoryStack()
    handle_dead_letters(world, json.dumps(charge_message()))
    world.clock.advance(hours=1)
    world.reconcile(KEY)
    world.alerts.sent.clear()
    store, reads = world.store, iter(range(99))

    def somebody_else_owns_it() -> None:
        store.jobs[KEY] = replace(store.jobs[KEY], owner=f"owner-{next(reads)}")

    world.store = InterruptingPort(store, "get", somebody_else_owns_it)

    (letter,) = handle_dead_letters(world, json.dumps(charge_message()))

    assert (letter.outcome, next(reads)) == (DeadLetterOutcome.LEFT_IN_QUEUE, 5)
    assert "kept changing" in letter.reason
    assert world.alerts.sent == []
