"""A crash at every step of a run, before and after each port call: one charge, no lost job."""

from itertools import product

import pytest

from oncely.core.lifecycle import Status
from tests.support.crash_points import CrashingPort, CrashPlan, SimulatedCrashError
from tests.support.in_memory_stack import InMemoryStack, charge_message

KEY = "payment.charge:order_18452"
MAX_CALLS = 20  # more calls than any run makes


def world_with_order() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    return world


def run_until_crash(world: InMemoryStack, plan: CrashPlan) -> None:
    runner = world.runner(
        store=CrashingPort(world.store, plan), provider=CrashingPort(world.payments, plan)
    )
    try:
        world.run(charge_message(), runner=runner)
    except SimulatedCrashError:
        assert plan.has_crashed


def record_calls(world: InMemoryStack) -> int:
    fate = CrashPlan(crash_at=MAX_CALLS, crash_after=False)
    run_until_crash(world, fate)
    assert not fate.has_crashed
    return len(fate.calls)


@pytest.mark.parametrize("declines", [False, True], ids=["paid", "declined"])
@pytest.mark.parametrize("honors_idempotency_keys", [True, False], ids=["keys", "no keys"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_death_at_any_call_neither_charges_twice_nor_loses_job(
    *, after: bool, honors_idempotency_keys: bool, declines: bool
) -> None:
    def fresh() -> InMemoryStack:
        world = world_with_order()
        world.payments.honors_idempotency_keys = honors_idempotency_keys
        world.payments.declines = declines
        return world

    for call in range(1, record_calls(fresh()) + 1):
        world = fresh()
        fate = CrashPlan(crash_at=call, crash_after=after)
        run_until_crash(world, fate)
        assert fate.has_crashed
        world.run(charge_message())  # the message is redelivered during the lease
        world.clock.advance(hours=1)
        world.run(charge_message())  # and again after it

        job = world.run_until_idle(KEY)

        ended = Status.FAILED if declines else Status.FINISHED
        place = f"died {'after' if after else 'before'} call {call}, {fate.calls[-1]}"
        assert job.status is ended, place
        assert len(world.payments.charges) == (0 if declines else 1), place
        assert world.order()["status"] == ("payment_failed" if declines else "paid"), place


@pytest.mark.parametrize("second_after", [False, True])
@pytest.mark.parametrize("first_after", [False, True])
def test_two_consecutive_deaths_still_charge_once(*, first_after: bool, second_after: bool) -> None:
    for first, second in product(range(1, record_calls(world_with_order()) + 1), repeat=2):
        world = world_with_order()
        run_until_crash(world, CrashPlan(crash_at=first, crash_after=first_after))
        world.clock.advance(hours=1)
        for _ in range(3):
            world.reconcile(KEY)
        run_until_crash(world, CrashPlan(crash_at=second, crash_after=second_after))
        world.run(charge_message())

        assert world.run_until_idle(KEY).status is Status.FINISHED, (first, second)
        assert len(world.payments.charges) == 1, (first, second)
