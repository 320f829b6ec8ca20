"""Sweeps of the reconciler from a worker's death until the payment's state is known again."""

from contextlib import suppress
from typing import Final

from tests.bench.figures import Recovery
from tests.support.crash_points import CrashingPort, CrashPlan, SimulatedCrashError
from tests.support.in_memory_stack import InMemoryStack, charge_message

KEY: Final = "payment.charge:order_18452"
_MAX_CALLS: Final = 20  # more calls than any run makes
_MAX_SWEEPS: Final = 20


def measure() -> tuple[Recovery, ...]:
    names = _run(CrashPlan(crash_at=_MAX_CALLS, crash_after=False))[0].calls
    return tuple(
        _recover(CrashPlan(crash_at=call, crash_after=after))
        for call in range(names.index("claim") + 1, len(names) + 1)
        for after in (False, True)
        if after
        or call > names.index("claim") + 1  # before the claim, the queue redelivers the message
    )


def _run(plan: CrashPlan) -> tuple[CrashPlan, InMemoryStack]:
    world = InMemoryStack()
    world.add_order()
    runner = world.runner(
        store=CrashingPort(world.store, plan), provider=CrashingPort(world.payments, plan)
    )
    with suppress(SimulatedCrashError):
        world.run(charge_message(), runner=runner)
    return plan, world


def _recover(plan: CrashPlan) -> Recovery:
    _, world = _run(plan)
    sweeps = 0
    while not (job := world.job(KEY)).ended and job.due_at and sweeps < _MAX_SWEEPS:
        world.clock.time = max(world.clock.time, job.due_at)
        world.reconcile(KEY)
        sweeps += 1
        # If it certainly did not happen, the message is resent, and a worker runs the job.
        while world.outbox.sent:
            world.run(world.outbox.sent.pop(0))
    when = "after" if plan.crash_after else "before"
    status = world.job(KEY).status
    return Recovery(died=f"{when} {plan.calls[-1]}", sweeps=sweeps, ended=str(status))
