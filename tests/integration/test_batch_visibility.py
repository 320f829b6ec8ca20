"""A message that is handed back is seen again when it was promised, on a real queue."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncely.adapters.sqs import SqsInbox
from oncely.services.outcomes import HeldElsewhere, NotStarted
from tests.support.fakes import FakeClock
from tests.support.worker import Bench, Stage, delivery, held_elsewhere
from tests.support.world import World, charge

LEASE = timedelta(seconds=1.5)
# SQS counts whole seconds, so a message may come back this much after the lease.
ROUNDED_UP = timedelta(seconds=1)


@pytest.fixture
def bench(stage: Stage) -> Bench:
    """A worker of the real queue; its jobs are in memory."""
    bench = Bench(
        world=World(clock=FakeClock(datetime.now(UTC))),
        inbox=SqsInbox(client=stage.sqs, queue_url=stage.queue, rejects_url=stage.rejects),
    )
    bench.world.add_order()
    return bench


def received(event: dict[str, Any]) -> str:
    [record] = event["Records"]
    return str(record["receiptHandle"])


def first_seen(stage: Stage, *, give_up: datetime) -> datetime:
    while datetime.now(UTC) < give_up:
        if stage.receive()["Records"]:
            return datetime.now(UTC)
        time.sleep(0.05)
    pytest.fail("the message never came back")


def test_message_is_redelivered_at_once_when_time_is_short(stage: Stage, bench: Bench) -> None:
    receipt = received(stage.deliver("one"))

    [one] = bench.work(delivery(charge(), receipt=receipt), seconds_left=5)

    assert isinstance(one.outcome, NotStarted)
    [record] = stage.receive()["Records"]
    assert record["body"] == "one"
    assert record["attributes"]["ApproximateReceiveCount"] == "2"


def test_leased_message_is_hidden_until_lease_expires(stage: Stage, bench: Bench) -> None:
    receipt = received(stage.deliver("one"))
    bench.world.clock.time = datetime.now(UTC)
    held_elsewhere(bench.world, lease=LEASE)

    [one] = bench.work(delivery(charge(), receipt=receipt))

    assert isinstance(one.outcome, HeldElsewhere)
    seen_at = first_seen(stage, give_up=one.outcome.until + ROUNDED_UP + timedelta(seconds=5))
    # Not before: that would spend a receive on a lease that still stands.
    assert one.outcome.until <= seen_at
