"""A batch: side by side with a bound, no thread left behind, and each message its own answer."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, Literal

import pytest

from oncely.contract import (
    COMMIT_BUDGET,
    AnyContract,
    Call,
    Contract,
    Message,
    Needs,
    Proceed,
    Words,
)
from oncely.domain.answers import Answer, Done
from oncely.domain.keys import JobKey, job_key
from oncely.domain.profiles import Profile, Safety, Terms
from oncely.services.outcomes import Broken, Finished, HeldElsewhere, NotStarted
from oncely.services.work_batch import Delivery
from tests.support.fakes import FakeInbox
from tests.support.mortal import DiedError
from tests.support.payments import Fault
from tests.support.worker import BOUND, Bench, delivery, held_elsewhere
from tests.support.world import World, charge

# For a thread to be scheduled on a busy machine; a test that passes does not wait for it.
PATIENCE = 10.0


class StepMessage(Message):
    job: Literal["test.step"]
    v: Literal[1]
    name: str


def contract_that(
    act: Callable[[str], object], check: Callable[[str], object] = lambda _name: None
) -> type[AnyContract]:
    """A job of one call of 4 s; a test says what happens inside."""

    class Step(Contract[StepMessage, str]):
        job_type: ClassVar[str] = "test.step"
        message = StepMessage
        terms = Terms(
            safety=Safety.NATURAL,
            profile=Profile(name="Test", request_timeout=timedelta(seconds=4), calls=1),
        )
        needs = Needs(queue="test")
        words = Words(outside="-", rows="-", success="-", failure="-")

        @classmethod
        def key(cls, message: StepMessage) -> JobKey:
            return job_key(cls.job_type, message.name)

        def check(self, message: StepMessage) -> Proceed[str]:
            check(message.name)
            return Proceed(facts=message.name, values={"name": message.name})

        def act(self, call: Call[str]) -> Answer:
            act(call.facts)
            return Done(f"did {call.facts}")

    return Step


def steps(*names: str) -> list[Delivery]:
    return [delivery({"job": "test.step", "v": 1, "name": name}) for name in names]


def ten() -> list[Delivery]:
    return steps(*(f"step-{number}" for number in range(10)))


@pytest.fixture
def charging() -> Bench:
    bench = Bench(world=World())
    bench.world.add_order()
    return bench


def test_batch_runs_jobs_concurrently_within_bound() -> None:
    inside: list[str] = []
    seen: list[int] = []
    round_ = threading.Barrier(BOUND)

    def act(name: str) -> None:
        inside.append(name)
        seen.append(len(inside))
        round_.wait(PATIENCE)
        threading.Event().wait(0.1)  # one more than the bound would come in meanwhile
        inside.remove(name)

    bench = Bench(world=World(contracts=(contract_that(act),)))

    worked = bench.work(*ten())

    assert all(isinstance(one.outcome, Finished) for one in worked)
    assert max(seen) == BOUND


def test_nothing_runs_after_batch_returned() -> None:
    quick_is_done, slow_ended = threading.Event(), []

    def act(name: str) -> None:
        if name == "quick":
            quick_is_done.set()
            return
        assert quick_is_done.wait(PATIENCE)
        threading.Event().wait(0.2)
        slow_ended.append(name)

    before = threading.enumerate()
    bench = Bench(world=World(contracts=(contract_that(act),)))

    bench.work(*steps("quick", "slow"))

    assert slow_ended == ["slow"]
    assert threading.enumerate() == before


def test_no_thread_is_left_when_batch_breaks() -> None:
    inside, ended = threading.Event(), []

    def act(name: str) -> None:
        if name == "breaks":
            assert inside.wait(PATIENCE)
            raise DiedError
        inside.set()
        threading.Event().wait(0.2)
        ended.append(name)

    before = threading.enumerate()
    bench = Bench(world=World(contracts=(contract_that(act),)))

    with pytest.raises(DiedError):
        bench.work(*steps("breaks", "slow"))

    assert len(ended) == 1
    assert threading.enumerate() == before


def test_failing_message_stays_queued_without_failing_others() -> None:
    def check(name: str) -> None:
        if name == "bad":
            raise RuntimeError(name)

    bench = Bench(world=World(contracts=(contract_that(lambda _name: None, check),)))

    bad, *others = bench.work(*steps("bad", "one", "two"))

    assert isinstance(bad.outcome, Broken)
    assert not bad.acked
    assert all(isinstance(one.outcome, Finished) and one.acked for one in others)


@pytest.mark.parametrize(("spread", "seconds"), [(0.0, 42), (0.5, 47)])
def test_leased_message_is_redelivered_when_lease_expires(
    charging: Bench, spread: float, seconds: int
) -> None:
    charging.spread = spread
    held_elsewhere(charging.world, lease=timedelta(seconds=42))

    [one] = charging.work(delivery(charge()))

    assert isinstance(one.outcome, HeldElsewhere)
    assert not one.acked
    assert charging.inbox.shown_again == {one.delivery.receipt: timedelta(seconds=seconds)}


def test_redelivery_delay_stays_within_sqs_limit(charging: Bench) -> None:
    held_elsewhere(charging.world, lease=timedelta(days=2))

    [one] = charging.work(delivery(charge()))

    assert charging.inbox.shown_again[one.delivery.receipt] < timedelta(hours=12)


@pytest.mark.parametrize(("receives", "acked"), [(3, False), (4, True), (5, True), (9, True)])
def test_leased_message_is_acked_near_receive_limit(
    charging: Bench, receives: int, *, acked: bool
) -> None:
    held_elsewhere(charging.world, lease=timedelta(seconds=42))

    [one] = charging.work(delivery(charge(), receives=receives))

    assert one.acked is acked
    assert bool(charging.inbox.shown_again) is not acked


def test_unsent_job_message_is_redelivered_after_backoff(charging: Bench) -> None:
    charging.world.payments.fails("prepare", Fault.REFUSED_CONNECTION)

    [one] = charging.work(delivery(charge()))

    assert not one.acked
    assert charging.inbox.shown_again == {one.delivery.receipt: timedelta(seconds=15)}


def test_message_is_not_acked_when_reject_fails() -> None:
    class ClosedInbox(FakeInbox):
        def reject(self, body: str, *, reason: str, message_id: str) -> None:
            raise ConnectionError(reason)

    bench = Bench(world=World(), inbox=ClosedInbox())

    [one] = bench.work(delivery("not JSON"))

    assert not one.acked
    assert isinstance(one.error, ConnectionError)


def test_rejected_message_is_acked() -> None:
    bench = Bench(world=World())

    [one] = bench.work(delivery("not JSON"))

    assert one.acked
    assert [body for body, _ in bench.inbox.rejected] == [one.delivery.body]


def test_batch_is_redelivered_at_once_when_time_is_short() -> None:
    contract = contract_that(lambda name: pytest.fail(f"{name} was started"))
    bench = Bench(world=World(contracts=(contract,)))

    worked = bench.work(*ten(), seconds_left=5)

    assert contract.time_needed() == timedelta(seconds=4) + COMMIT_BUDGET
    assert bench.world.store.jobs == {}
    assert all(isinstance(one.outcome, NotStarted) and not one.acked for one in worked)
    assert bench.inbox.shown_again == {one.delivery.receipt: timedelta(0) for one in worked}


def test_round_that_cannot_finish_is_redelivered_at_once() -> None:
    world = World()
    # When the last of a round is inside, four seconds pass for all of them.
    round_ = threading.Barrier(BOUND, action=lambda: world.clock.move(seconds=4))
    world.contracts = (contract_that(lambda _name: round_.wait(PATIENCE)),)
    bench = Bench(world=world)

    worked = bench.work(*ten(), seconds_left=13)

    finished, left = worked[:BOUND], worked[BOUND:]
    assert all(isinstance(one.outcome, Finished) and one.acked for one in finished)
    assert all(isinstance(one.outcome, NotStarted) and not one.acked for one in left)
    assert bench.inbox.shown_again == {one.delivery.receipt: timedelta(0) for one in left}
    assert len(world.store.jobs) == BOUND
