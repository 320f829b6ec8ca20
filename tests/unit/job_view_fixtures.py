"""Jobs to show: one that was paid, and many that need review."""

from datetime import timedelta

from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message

KEY = JobKey("payment.charge:order_18452")


def world_with_paid_job(order_id: str = "18452", **order: object) -> InMemoryStack:
    world = InMemoryStack()
    world.add_order(order_id, **order)
    world.run(charge_message(order_id))
    return world


def many_reviews(number: int, *, apart: timedelta = timedelta(seconds=1)) -> InMemoryStack:
    world = InMemoryStack()
    for index in range(number):
        at = START + apart * index
        job_type = "payment.charge" if index % 10 else "sync.push"
        key = JobKey(f"{job_type}:order_{index}")
        world.store.jobs[key] = JobRow(
            job_key=key,
            job_type=job_type,
            status=Status.NEEDS_REVIEW,
            message={},
            created_at=at,
            updated_at=at,
            since=at,
        )
    return world
