"""Rows with another job's message: permissions are limited by key, so nothing acts on them."""

from dataclasses import replace

import pytest

from oncely.core.errors import InvalidMessageError, UnreadableRowError
from oncely.core.job_row import JobRow, operator_actor
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair, resolve_manually
from oncely.operate.repair_request import NotAllowed, Repaired
from tests.support import repairs
from tests.support.in_memory_stack import InMemoryStack, charge_message

# A compromised sync worker can write rows under keys like this one only.
FORGED = JobKey("sync.contact:hubspot:1:2")
JOB_TYPES = ["sync.contact", "payment.charge"]


@pytest.fixture
def world() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    return world


def forge(world: InMemoryStack, job_type: str, status: Status = Status.READY) -> JobRow:
    world.enqueuer().enqueue(charge_message())
    (real,) = world.store.jobs.values()
    world.store.jobs.clear()
    world.outbox.sent.clear()
    row: JobRow = replace(real, job_key=FORGED, job_type=job_type, status=status, fence=1)
    world.store.jobs[FORGED] = row
    world.clock.advance(hours=1)
    return row


@pytest.mark.parametrize("job_type", JOB_TYPES)
def test_ready_row_with_payment_message_is_never_sent(world: InMemoryStack, job_type: str) -> None:
    forge(world, job_type)

    world.reconcile(FORGED)

    job = world.job(FORGED)
    assert (job.status, world.outbox.sent) == (Status.NEEDS_REVIEW, [])
    assert "holds the message of payment.charge:order_18452" in str(job.last_error)


@pytest.mark.parametrize("job_type", JOB_TYPES)
def test_finished_row_with_payment_message_is_not_published(
    world: InMemoryStack, job_type: str
) -> None:
    forge(world, job_type, Status.FINISHED)

    with pytest.raises(UnreadableRowError, match=r"payment\.charge:order_18452"):
        world.publisher().publish(FORGED)

    assert (world.bus.published, world.outbox.sent) == ([], [])


@pytest.mark.parametrize("by_stream", [True, False])
@pytest.mark.parametrize("status", [Status.FINISHED, Status.FAILED])
def test_inserted_end_is_reviewed_and_not_published(
    world: InMemoryStack, status: Status, *, by_stream: bool
) -> None:
    """A producer can insert neither `fence` nor `result`, so it cannot forge either of them."""
    key = JobKey("payment.charge:order_18452")
    world.enqueuer().enqueue(charge_message())
    world.outbox.sent.clear()
    world.store.jobs[key] = replace(world.job(key), status=status, evidence=())
    world.clock.advance(hours=1)

    if by_stream:
        assert not world.publisher().publish(key)
    resolved = world.reconcile(key)

    job = world.job(key)
    assert (job.status, job.expires_at) == (Status.NEEDS_REVIEW, None)
    assert f"inserted as {status}" in str(job.last_error)
    assert resolved.reason == job.last_error
    assert len(world.alerts.sent) == 1
    assert (world.bus.published, world.outbox.sent, world.payments.calls) == ([], [], [])
    assert isinstance(repairs.repair_job(world, Repair.REOPEN, key=key), Repaired)
    world.run(charge_message())
    assert (world.job(key).status, len(world.payments.charges)) == (Status.FINISHED, 1)


def test_job_that_operator_ended_unclaimed_is_published(world: InMemoryStack) -> None:
    key = JobKey("payment.charge:order_missing")
    world.run(charge_message("missing"))
    world.clock.advance(hours=1)
    world.reconcile(key)
    assert (world.job(key).status, world.job(key).was_claimed) == (Status.NEEDS_REVIEW, False)
    ended = resolve_manually(
        world.job(key), Repair.MARK_FINISHED, reason="seen at Stripe", reference="ch_1"
    ).apply_to(world.job(key), now=world.clock.now(), actor=operator_actor("ada"))
    world.store.jobs[key] = replace(ended, due_at=world.clock.now())

    assert world.publisher().publish(key)

    assert world.job(key).status is Status.FINISHED
    assert len(world.outbox.sent) == 1


def test_operator_cannot_resend_forged_message(world: InMemoryStack) -> None:
    forge(world, "sync.contact")

    assert isinstance(repairs.repair_job(world, Repair.RESEND, key=FORGED), NotAllowed)
    assert world.outbox.sent == []


@pytest.mark.parametrize(
    "change",
    [
        {"job_key": JobKey("payment.charge:order_2")},
        {"job_key": JobKey("payment.charge:order_18452:2")},
        {"job_type": "receipt.send"},
    ],
)
def test_message_must_be_that_of_key_and_type(world: InMemoryStack, change: dict[str, str]) -> None:
    row = replace(forge(world, "payment.charge"), job_key=JobKey("payment.charge:order_18452"))
    world.registry.parse_row(row)

    with pytest.raises(InvalidMessageError, match="holds the message of"):
        world.registry.parse_row(replace(row, **change))  # type: ignore[arg-type]  # fields by name
