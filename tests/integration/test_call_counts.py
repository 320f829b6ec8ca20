"""DynamoDB calls of the engine: two for a new job, one for a duplicate."""

import pytest

from oncely.run.outcomes import Conflict, Duplicate, Failed, Finished, InvalidMessage, Waiting
from tests.integration.ping import Ping, ping_message
from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack, charge_message

READ_ORDER = "GetItem"
CLAIM = "UpdateItem"
SAVE_REFERENCE = "UpdateItem"
END = "UpdateItem"
END_WITH_ORDER = "TransactWriteItems"


def payment_world(dynamo: DynamoFixture) -> InMemoryStack:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    world.add_order()
    return world


def test_new_job_takes_two_calls_and_duplicate_one(dynamo: DynamoFixture) -> None:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows(), contracts=(Ping,))

    assert isinstance(world.run(ping_message("seven")), InvalidMessage)
    assert dynamo.calls.attempts == []
    assert isinstance(world.run(ping_message()), Finished)
    assert dynamo.calls.attempts == [CLAIM, END]
    assert isinstance(world.run(ping_message()), Duplicate)
    assert dynamo.calls.attempts == [CLAIM, END, CLAIM]


@pytest.mark.parametrize("declines", [False, True])
def test_payment_adds_one_read_and_one_write(dynamo: DynamoFixture, *, declines: bool) -> None:
    world = payment_world(dynamo)
    world.payments.declines = declines

    assert isinstance(world.run(charge_message()), Failed if declines else Finished)
    assert dynamo.calls.attempts == [READ_ORDER, CLAIM, SAVE_REFERENCE, END_WITH_ORDER]
    dynamo.calls.reset()
    assert isinstance(world.run(charge_message()), Duplicate)
    assert dynamo.calls.attempts == [READ_ORDER, CLAIM]


def test_conflict_takes_two_reads_and_invalid_message_none(dynamo: DynamoFixture) -> None:
    world = payment_world(dynamo)
    assert isinstance(world.run(charge_message(card="4242")), InvalidMessage)
    assert dynamo.calls.attempts == []
    assert isinstance(world.run(charge_message(amount=1)), Conflict)
    assert dynamo.calls.attempts == [READ_ORDER, "GetItem"]


def test_early_message_takes_two_writes_and_its_duplicate_one(dynamo: DynamoFixture) -> None:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    assert isinstance(world.run(charge_message()), Waiting)
    assert dynamo.calls.attempts == [READ_ORDER, "PutItem", "UpdateItem"]
    dynamo.calls.reset()
    assert isinstance(world.run(charge_message()), Waiting)
    assert dynamo.calls.attempts == [READ_ORDER, "PutItem"]
