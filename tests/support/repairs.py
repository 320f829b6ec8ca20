"""A payment that a person repairs: how it came there, and the order that is given."""

from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.repairs import Repair
from oncely.services.repair_order import (
    Outcome,
    RepairOrder,
)
from tests.support.payments import Fault
from tests.support.world import World, charge

KEY = JobKey("payment.charge:order_18452")
ADA = "ada@example.com"
REASON = "the customer called"


def repair(world: World, what: Repair, *, key: JobKey = KEY, **more: object) -> Outcome:
    seen = {"version": world.job(key).version, "reason": REASON, "actor": ADA}
    order = RepairOrder(key=key, repair=what, **{**seen, **more})  # type: ignore[arg-type]  # fields by name
    return world.repairer().repair(order)


def unknown(fault: Fault = Fault.TIMEOUT_AFTER) -> World:
    world = World()
    world.add_order()
    world.payments.fails("execute", fault)
    world.run(charge())
    assert world.job(KEY).status is Status.UNKNOWN
    return world


def in_review(fault: Fault = Fault.TIMEOUT_AFTER) -> World:
    """Nobody could say for a day what became of it."""
    world = unknown(fault)
    world.clock.move(hours=25)
    world.payments.fails("look_up", Fault.TIMEOUT_AFTER)
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    return world


def declined() -> World:
    world = World()
    world.add_order()
    world.payments.declines = True
    world.run(charge())
    assert world.job(KEY).status is Status.FAILED
    world.payments.declines = False
    return world


def untouched(world: World, before: Job) -> bool:
    return world.job(before.job_key) == before
