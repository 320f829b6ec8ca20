"""Death at every step of a run, before and after each port call: one charge, no lost job."""

from itertools import product

import pytest

from oncely.domain.lifecycle import Status
from tests.support.mortal import DiedError, Fate, Mortal
from tests.support.world import World, charge

KEY = "payment.charge:order_18452"
LONGEST = 20  # more calls than any run makes


def with_order() -> World:
    world = World()
    world.add_order()
    return world


def run_and_die(world: World, fate: Fate) -> None:
    runner = world.runner(
        store=Mortal(world.store, fate),
        provider=Mortal(world.payments, fate),
    )
    try:
        world.run(charge(), runner=runner)
    except DiedError:
        assert fate.died


def calls_of_a_run(world: World) -> int:
    fate = Fate(call=LONGEST, after=False)
    run_and_die(world, fate)
    assert not fate.died
    return len(fate.calls)


@pytest.mark.parametrize("declines", [False, True], ids=["paid", "declined"])
@pytest.mark.parametrize("honours_keys", [True, False], ids=["keys", "no keys"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_death_at_any_call_neither_charges_twice_nor_loses_job(
    *, after: bool, honours_keys: bool, declines: bool
) -> None:
    def fresh() -> World:
        world = with_order()
        world.payments.honours_keys = honours_keys
        world.payments.declines = declines
        return world

    for call in range(1, calls_of_a_run(fresh()) + 1):
        world = fresh()
        fate = Fate(call=call, after=after)
        run_and_die(world, fate)
        assert fate.died
        world.run(charge())  # the message comes back while the lease is alive
        world.clock.move(hours=1)
        world.run(charge())  # and once more after it

        job = world.until_quiet(KEY)

        ended = Status.FAILED if declines else Status.FINISHED
        place = f"died {'after' if after else 'before'} call {call}, {fate.calls[-1]}"
        assert job.status is ended, place
        assert len(world.payments.charges) == (0 if declines else 1), place
        assert world.order()["status"] == ("payment_failed" if declines else "paid"), place


@pytest.mark.parametrize("second_after", [False, True])
@pytest.mark.parametrize("first_after", [False, True])
def test_two_consecutive_deaths_still_charge_once(*, first_after: bool, second_after: bool) -> None:
    longest = calls_of_a_run(with_order())
    for first, second in product(range(1, longest + 1), repeat=2):
        world = with_order()
        run_and_die(world, Fate(call=first, after=first_after))
        world.clock.move(hours=1)
        for _ in range(3):
            world.reconcile(KEY)
        run_and_die(world, Fate(call=second, after=second_after))
        world.run(charge())

        job = world.until_quiet(KEY)

        assert job.status is Status.FINISHED, (first, second)
        assert len(world.payments.charges) == 1, (first, second)
