"""A batch: bounded concurrency, no thread left behind, and a result for each message."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from oncely.contracts.job import AnyJob, Job
from oncely.core.effect_outcomes import EffectOutcome, Succeeded
from oncely.core.job_type import Call, Proceed
from oncely.core.outcomes import LeasedElsewhere
from oncely.core.profiles import COMMIT_BUDGET, ProviderProfile
from oncely.run.process_batch import Delivery
from tests.support.crash_points import SimulatedCrashError
from tests.support.fakes import FakeMessageSource
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_error, is_finished, lacked_time
from tests.support.provider_fault import ProviderFault
from tests.support.worker import (
    BATCH_CONCURRENCY,
    BatchHarness,
    lease_to_other_worker,
    make_delivery,
)

# Time to schedule a thread on a busy machine. A passing test does not wait this long.
TIMEOUT_SECONDS = 10.0


def contract_with(
    act: Callable[[str], object], check: Callable[[str], object] = lambda _name: None
) -> type[AnyJob]:
    class Step(Job):
        """A step."""

        job_type = "test.step"
        key = "name"
        queue = "test"
        safety = "natural"
        profile = ProviderProfile(name="Test", request_timeout=timedelta(seconds=4), max_calls=1)

        name: str

        def precheck(self) -> Proceed[None]:
            check(self.name)
            return Proceed(facts=None, values={"name": self.name})

        def execute(self, call: Call) -> EffectOutcome:
            act(self.name)
            return Succeeded(f"did {self.name}")

    return Step


def step_deliveries(*names: str) -> list[Delivery]:
    return [make_delivery({"job": "test.step", "v": 1, "name": name}) for name in names]


def ten_deliveries() -> list[Delivery]:
    return step_deliveries(*(f"step-{number}" for number in range(10)))


@pytest.fixture
def charging() -> BatchHarness:
    rig = BatchHarness(world=InMemoryStack())
    rig.world.add_order()
    return rig


def test_batch_runs_jobs_concurrently_within_bound() -> None:
    inside: list[str] = []
    seen: list[int] = []
    round_ = threading.Barrier(BATCH_CONCURRENCY)

    def act(name: str) -> None:
        inside.append(name)
        seen.append(len(inside))
        round_.wait(TIMEOUT_SECONDS)
        threading.Event().wait(0.1)  # one more than the bound would start in this time
        inside.remove(name)

    rig = BatchHarness(world=InMemoryStack(contracts=(contract_with(act),)))

    worked = rig.process(*ten_deliveries())

    assert all(is_finished(one.outcome) for one in worked)
    assert max(seen) == BATCH_CONCURRENCY


def test_nothing_runs_after_batch_returned() -> None:
    quick_is_done, slow_ended = threading.Event(), []

    def act(name: str) -> None:
        if name == "quick":
            quick_is_done.set()
            return
        assert quick_is_done.wait(TIMEOUT_SECONDS)
        threading.Event().wait(0.2)
        slow_ended.append(name)

    before = threading.enumerate()
    rig = BatchHarness(world=InMemoryStack(contracts=(contract_with(act),)))

    rig.process(*step_deliveries("quick", "slow"))

    assert slow_ended == ["slow"]
    assert threading.enumerate() == before


def test_no_thread_is_left_when_batch_breaks() -> None:
    inside, ended = threading.Event(), []

    def act(name: str) -> None:
        if name == "breaks":
            assert inside.wait(TIMEOUT_SECONDS)
            raise SimulatedCrashError
        inside.set()
        threading.Event().wait(0.2)
        ended.append(name)

    before = threading.enumerate()
    rig = BatchHarness(world=InMemoryStack(contracts=(contract_with(act),)))

    with pytest.raises(SimulatedCrashError):
        rig.process(*step_deliveries("breaks", "slow"))

    assert len(ended) == 1
    assert threading.enumerate() == before


def test_failing_message_stays_queued_without_failing_others() -> None:
    def check(name: str) -> None:
        if name == "bad":
            raise RuntimeError(name)

    rig = BatchHarness(world=InMemoryStack(contracts=(contract_with(lambda _name: None, check),)))

    bad, *others = rig.process(*step_deliveries("bad", "one", "two"))

    assert is_error(bad.outcome)
    assert not bad.acked
    assert all(is_finished(one.outcome) and one.acked for one in others)


@pytest.mark.parametrize(("spread", "seconds"), [(0.0, 42), (0.5, 47)])
def test_leased_message_is_redelivered_when_lease_expires(
    charging: BatchHarness, spread: float, seconds: int
) -> None:
    charging.jitter = spread
    lease_to_other_worker(charging.world, lease=timedelta(seconds=42))

    [one] = charging.process(make_delivery(charge_message()))

    assert isinstance(one.outcome, LeasedElsewhere)
    assert not one.acked
    assert charging.inbox.redelivered == {one.delivery.receipt: timedelta(seconds=seconds)}


def test_redelivery_delay_stays_within_sqs_limit(charging: BatchHarness) -> None:
    lease_to_other_worker(charging.world, lease=timedelta(days=2))
    [one] = charging.process(make_delivery(charge_message()))
    assert charging.inbox.redelivered[one.delivery.receipt] < timedelta(hours=12)


@pytest.mark.parametrize(("receives", "acked"), [(3, False), (4, True), (5, True), (9, True)])
def test_leased_message_is_acked_at_limit(
    charging: BatchHarness, receives: int, *, acked: bool
) -> None:
    lease_to_other_worker(charging.world, lease=timedelta(seconds=42))
    [one] = charging.process(make_delivery(charge_message(), receives=receives))
    assert one.acked is acked
    assert bool(charging.inbox.redelivered) is not acked


def test_unsent_job_message_is_redelivered_after_backoff(charging: BatchHarness) -> None:
    charging.world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
    [one] = charging.process(make_delivery(charge_message()))
    assert not one.acked
    assert charging.inbox.redelivered == {one.delivery.receipt: timedelta(seconds=15)}


@pytest.mark.parametrize("fails", [True, False])
def test_rejected_message_is_acked_unless_reject_fails(*, fails: bool) -> None:
    class ClosedInbox(FakeMessageSource):
        def reject(
            self, body: str, *, reason: str, message_id: str, job_key: str | None = None
        ) -> None:
            raise ConnectionError(reason)

    rig = BatchHarness(world=InMemoryStack(), inbox=ClosedInbox() if fails else FakeMessageSource())

    [one] = rig.process(make_delivery("not JSON"))

    assert one.acked is not fails
    assert isinstance(one.error, ConnectionError) is fails
    assert [body for body, _ in rig.inbox.rejected] == [one.delivery.body] * (not fails)


def test_batch_is_redelivered_at_once_when_time_is_short() -> None:
    contract = contract_with(lambda name: pytest.fail(f"{name} was started"))
    rig = BatchHarness(world=InMemoryStack(contracts=(contract,)))

    worked = rig.process(*ten_deliveries(), seconds_left=5)

    assert contract.policy.max_duration == timedelta(seconds=4) + COMMIT_BUDGET
    assert rig.world.store.jobs == {}
    assert all(lacked_time(one.outcome) and not one.acked for one in worked)
    assert rig.inbox.redelivered == {one.delivery.receipt: timedelta(0) for one in worked}


def test_round_that_cannot_finish_is_redelivered_at_once(world: InMemoryStack) -> None:
    # When the last of a round is inside, four seconds pass for all of them.
    round_ = threading.Barrier(BATCH_CONCURRENCY, action=lambda: world.clock.advance(seconds=4))
    world.contracts = (contract_with(lambda _name: round_.wait(TIMEOUT_SECONDS)),)
    rig = BatchHarness(world=world)

    worked = rig.process(*ten_deliveries(), seconds_left=13)

    finished, left = worked[:BATCH_CONCURRENCY], worked[BATCH_CONCURRENCY:]
    assert all(is_finished(one.outcome) and one.acked for one in finished)
    assert all(lacked_time(one.outcome) and not one.acked for one in left)
    assert rig.inbox.redelivered == {one.delivery.receipt: timedelta(0) for one in left}
    assert len(world.store.jobs) == BATCH_CONCURRENCY
