"""A wrong first message is evidence on its row, and the right one runs and replaces it."""

from datetime import timedelta

import pytest

from oncely.core.decide import MESSAGE_GRACE
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from tests.support.crash_points import CrashingPort, CrashPlan, SimulatedCrashError
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import awaits_resolution, is_conflict, is_finished

KEY = "payment.charge:order_18452"
WRONG = charge_message(amount=1)
REASON = "a message was refused: the message has amount 1, but order 18452 has 1250"
RIGHT = pytest.mark.parametrize("right", [charge_message(), charge_message(amount=1250)])


@pytest.fixture
def refused(world: InMemoryStack) -> InMemoryStack:
    """A row whose only message was refused."""
    world.enqueuer().enqueue(WRONG)
    assert is_conflict(world.run(world.outbox.sent.pop()))
    return world


def test_row_shows_reason_at_once(refused: InMemoryStack) -> None:
    job = refused.job(KEY)
    assert (job.status, job.last_error) == (Status.READY, REASON)
    assert job.evidence[-1].event is Event.REFUSE
    view = refused.inspector().get(JobKey(KEY))
    assert view is not None
    assert view.headline == f"Not charged yet: {REASON}."


@RIGHT
@pytest.mark.parametrize("enqueued", [True, False])
def test_right_message_runs_and_replaces_wrong_one(
    refused: InMemoryStack, right: dict[str, object], *, enqueued: bool
) -> None:
    if enqueued:
        result = refused.enqueuer().enqueue(right)
        assert (result.created, result.sent, result.conflict) == (False, True, None)
        right_body: str | dict[str, object] = refused.outbox.sent.pop()
    else:
        right_body = right

    assert is_finished(refused.run(right_body))

    assert refused.job(KEY).message == right
    assert len(refused.payments.charges) == 1


@RIGHT
def test_right_message_runs_after_review_of_wrong_one(
    refused: InMemoryStack, right: dict[str, object]
) -> None:
    refused.clock.time += MESSAGE_GRACE
    refused.reconcile(KEY)
    review = refused.job(KEY)
    assert (review.status, review.awaits_message) == (Status.NEEDS_REVIEW, True)

    assert is_conflict(refused.run(WRONG))
    assert refused.job(KEY).awaits_message, "another wrong message is only evidence"
    assert is_finished(refused.run(right))
    assert refused.job(KEY).message == right


def test_reconciler_reads_message_that_was_charged(refused: InMemoryStack) -> None:
    crashing = CrashingPort(refused.payments, CrashPlan(crash_at="execute", crash_after=True))
    with pytest.raises(SimulatedCrashError):
        refused.run(charge_message(), runner=refused.runner(provider=crashing))
    refused.clock.advance(hours=1)

    assert refused.run_until_idle(KEY).status is Status.FINISHED
    assert refused.alerts.sent[1:] == [], "only that of the refused message"


def test_wrong_message_without_row_leaves_none(world: InMemoryStack) -> None:
    assert is_conflict(world.run(WRONG))
    assert world.store.jobs == {}


def test_neither_fingerprint_nor_message_changes_after_claim(world: InMemoryStack) -> None:
    crashing = CrashingPort(world.payments, CrashPlan(crash_at="prepare", crash_after=False))
    with pytest.raises(SimulatedCrashError):
        world.run(charge_message(), runner=world.runner(provider=crashing))
    first = world.job(KEY)
    world.clock.advance(hours=1)
    for _ in range(2):
        world.reconcile(KEY)
    assert world.job(KEY).status is Status.READY

    assert is_conflict(world.run(WRONG))
    assert world.job(KEY).evidence[-1].event is not Event.REFUSE
    assert is_finished(world.run(charge_message(amount=1250)))

    job = world.job(KEY)
    assert (job.message, job.fingerprint) == (first.message, first.fingerprint)


def test_claimed_job_in_review_for_its_values_is_not_reopened(world: InMemoryStack) -> None:
    crashing = CrashingPort(world.payments, CrashPlan(crash_at="execute", crash_after=False))
    with pytest.raises(SimulatedCrashError):
        world.run(charge_message(amount=1250), runner=world.runner(provider=crashing))
    world.clock.advance(hours=1)
    for _ in range(2):
        world.reconcile(KEY)
    world.add_order(amount=9900)
    world.clock.time += MESSAGE_GRACE + timedelta(minutes=1)
    world.reconcile(KEY)
    job = world.job(KEY)
    assert (job.status, job.awaits_message) == (Status.NEEDS_REVIEW, False)
    world.add_order()
    assert awaits_resolution(world.run(charge_message(amount=1250)))
