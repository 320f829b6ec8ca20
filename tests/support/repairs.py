"""A payment for an operator to repair: its state, and the request."""

from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair
from oncely.operate.repair_request import RepairOutcome, RepairRequest
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault

KEY = JobKey("payment.charge:order_18452")
OPERATOR = "ada@example.com"
REASON = "the customer called"


def repair_job(
    world: InMemoryStack, what: Repair, *, key: JobKey = KEY, **more: object
) -> RepairOutcome:
    seen = {"version": world.job(key).version, "reason": REASON, "actor": OPERATOR}
    order = RepairRequest(key=key, repair=what, **{**seen, **more})  # type: ignore[arg-type]  # fields by name
    return world.repairer().repair(order)


def world_with_unknown_job(fault: ProviderFault = ProviderFault.TIMEOUT_AFTER) -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    world.payments.fail_next("execute", fault)
    world.run(charge_message())
    assert world.job(KEY).status is Status.UNKNOWN
    return world


def world_with_review_job(fault: ProviderFault = ProviderFault.TIMEOUT_AFTER) -> InMemoryStack:
    world = world_with_unknown_job(fault)
    world.clock.advance(hours=25)
    world.payments.fail_next("lookup", ProviderFault.TIMEOUT_AFTER)
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    return world


def world_with_declined_job() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    world.payments.declines = True
    world.run(charge_message())
    assert world.job(KEY).status is Status.FAILED
    world.payments.declines = False
    return world


def is_unchanged(world: InMemoryStack, before: JobRow) -> bool:
    return world.job(before.job_key) == before
