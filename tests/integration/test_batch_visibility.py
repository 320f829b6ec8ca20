"""A message that is handed back is redelivered at the expected time, on a real queue."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncely.aws.clients import AwsClients
from oncely.aws.sqs import MessageSource
from oncely.core.outcomes import LeasedElsewhere
from tests.support.fakes import FakeClock
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import lacked_time
from tests.support.worker import BatchHarness, WorkerHarness, lease_to_other_worker, make_delivery

LEASE = timedelta(seconds=1.5)
# SQS counts whole seconds, so a message may be redelivered this much after the lease.
ROUNDED_UP = timedelta(seconds=1)


@pytest.fixture
def batch(rig: WorkerHarness) -> BatchHarness:
    world = InMemoryStack(clock=FakeClock(datetime.now(UTC)))
    world.add_order()
    source = MessageSource(clients=AwsClients(), queue_url=rig.queue)
    return BatchHarness(world=world, inbox=source)


def get_receipt(event: dict[str, Any]) -> str:
    [record] = event["Records"]
    return str(record["receiptHandle"])


def first_seen(rig: WorkerHarness, *, give_up: datetime) -> datetime:
    while datetime.now(UTC) < give_up:
        if rig.receive()["Records"]:
            return datetime.now(UTC)
        time.sleep(0.05)
    pytest.fail("the message never came back")


def test_message_is_redelivered_when_time_is_short(rig: WorkerHarness, batch: BatchHarness) -> None:
    receipt = get_receipt(rig.deliver("one"))
    [one] = batch.process(make_delivery(charge_message(), receipt=receipt), seconds_left=5)
    assert lacked_time(one.outcome)
    [record] = rig.receive()["Records"]
    assert (record["body"], record["attributes"]["ApproximateReceiveCount"]) == ("one", "2")


def test_leased_message_is_hidden_until_expiry(rig: WorkerHarness, batch: BatchHarness) -> None:
    receipt = get_receipt(rig.deliver("one"))
    batch.world.clock.time = datetime.now(UTC)
    lease_to_other_worker(batch.world, lease=LEASE)

    [one] = batch.process(make_delivery(charge_message(), receipt=receipt))
    assert isinstance(one.outcome, LeasedElsewhere)
    seen_at = first_seen(rig, give_up=one.outcome.until + ROUNDED_UP + timedelta(seconds=5))
    # Not before: that would spend a receive on a lease that is still held.
    assert one.outcome.until <= seen_at
