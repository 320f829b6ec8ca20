"""What a producer learns about its job: the status and the first result."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair
from oncely.enqueue.enqueuer import JobState
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.repairs import repair_job, world_with_unknown_job
from tests.support.scheduled_charge import ScheduledCharge
from tests.unit.samples import KEY

RESULT = {"charge_id": "ch_1", "payment_intent": "pi_1"}


@pytest.fixture
def world() -> InMemoryStack:
    stack = InMemoryStack()
    stack.add_order()
    return stack


def wait(
    world: InMemoryStack, *, seconds: float, events: dict[float, object] | None = None
) -> tuple[JobState | None, list[float]]:
    """Wait on a clock that moves with each delay. `events` run when their time has come."""
    slept: list[float] = []
    planned = sorted((events or {}).items())

    def sleep(delay: float) -> None:
        slept.append(delay)
        world.clock.advance(seconds=delay)
        while planned and sum(slept) >= planned[0][0]:
            planned.pop(0)[1]()  # type: ignore[operator]  # a call without arguments

    producer = replace(world.enqueuer(), sleep=sleep)
    return producer.wait(KEY, timedelta(seconds=seconds)), slept


def test_status_has_result_of_ended_job(world: InMemoryStack) -> None:
    producer = world.enqueuer()
    assert producer.status(KEY) is None

    producer.enqueue(charge_message())
    assert producer.status(KEY) == JobState(job_key=KEY, status=Status.READY)

    world.run(charge_message())
    done = producer.status(KEY)
    assert done is not None
    assert (done.status, done.ended) == (Status.FINISHED, True)
    assert done.result is not None
    assert RESULT.items() <= dict(done.result).items()


def test_duplicate_is_answered_with_first_result(world: InMemoryStack) -> None:
    first = world.enqueuer().enqueue(charge_message())
    assert first.result is None
    world.run(charge_message())

    again = world.enqueuer().enqueue(charge_message())

    assert (again.created, again.status) == (False, Status.FINISHED)
    assert again.result == world.job(KEY).result


def test_open_job_has_no_result_yet() -> None:
    """A review may have the provider's response, which is not a result."""
    world = world_with_unknown_job()
    job = world.job(KEY)
    world.store.jobs[KEY] = replace(job, result={"code": "card_declined"})
    state = world.enqueuer().status(KEY)
    assert state == JobState(job_key=KEY, status=Status.UNKNOWN)
    assert world.enqueuer().enqueue(charge_message()).result is None


def test_wait_ends_with_job(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())
    state, slept = wait(world, seconds=60, events={3: lambda: world.run(charge_message())})
    assert state is not None
    assert state.status is Status.FINISHED
    assert slept == [0.2, 0.4, 0.8, 1.6]


def test_wait_returns_open_state_at_timeout(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())
    state, slept = wait(world, seconds=20)
    assert state == JobState(job_key=KEY, status=Status.READY)
    assert max(slept) <= 5
    assert sum(slept) == pytest.approx(20)


def test_wait_for_absent_job_returns_none(world: InMemoryStack) -> None:
    assert wait(world, seconds=1)[0] is None


def test_wait_sees_job_that_appears_later(world: InMemoryStack) -> None:
    state, _ = wait(world, seconds=9, events={1: lambda: world.run(charge_message())})
    assert state is not None
    assert state.ended


def test_wait_does_not_wait_for_operator() -> None:
    world = InMemoryStack()
    world.run_to_review()
    state, slept = wait(world, seconds=60)
    assert state is not None
    assert (state.status, state.ended, slept) == (Status.NEEDS_REVIEW, False, [])


def test_cancelled_job_is_ended(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())
    repair_job(world, Repair.CANCEL)
    state, _ = wait(world, seconds=1)
    assert state is not None
    assert (state.status, state.ended) == (Status.CANCELLED, True)


def test_scheduled_job_shows_its_time(world: InMemoryStack) -> None:
    world.contracts = (ScheduledCharge,)
    later: datetime = world.clock.now() + timedelta(days=1)
    world.enqueuer().enqueue(charge_message(), run_at=later)
    state = world.enqueuer().status(KEY)
    assert state is not None
    assert (state.status, state.run_at) == (Status.READY, later)
