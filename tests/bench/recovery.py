"""Sweeps of the reconciler from a worker's death until the payment's state is known again."""

from contextlib import suppress
from typing import Final

from oncely.domain.jobs import Job
from tests.bench.figures import Recovery
from tests.support.mortal import DiedError, Fate, Mortal
from tests.support.world import World, charge

KEY: Final = "payment.charge:order_18452"
_LONGEST: Final = 20  # more calls than any run makes
_MOST: Final = 20


def measure() -> tuple[Recovery, ...]:
    """Death before and after each call of a run, from the claim on, each in a world of its own."""
    names = _run(Fate(call=_LONGEST, after=False))[0].calls
    return tuple(
        _recovered(Fate(call=call, after=after))
        for call in range(names.index("claim") + 1, len(names) + 1)
        for after in (False, True)
        if after or call > names.index("claim") + 1  # before the claim, the queue delivers again
    )


def _run(fate: Fate) -> tuple[Fate, World]:
    world = World()
    world.add_order()
    runner = world.runner(store=Mortal(world.store, fate), provider=Mortal(world.payments, fate))
    with suppress(DiedError):
        world.run(charge(), runner=runner)
    return fate, world


def _recovered(fate: Fate) -> Recovery:
    _, world = _run(fate)
    sweeps = 0
    while not _known(world.job(KEY)) and sweeps < _MOST:
        due = world.job(KEY).due_at
        world.clock.time = max(world.clock.time, due or world.clock.time)
        world.reconcile(KEY)
        sweeps += 1
        # A job that certainly did not happen gets its message; a worker takes it.
        while world.outbox.sent:
            world.run(world.outbox.sent.pop(0))
    when = "after" if fate.after else "before"
    status = world.job(KEY).status
    return Recovery(died=f"{when} {fate.calls[-1]}", sweeps=sweeps, ended=str(status))


def _known(job: Job) -> bool:
    return job.ended or job.due_at is None
