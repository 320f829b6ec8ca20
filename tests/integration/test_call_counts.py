"""DynamoDB calls of the engine: two for a new job, one for a duplicate."""

import pytest

from tests.integration.ping import Ping, ping_message
from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import (
    is_conflict,
    is_duplicate,
    is_failed,
    is_finished,
    is_invalid,
    waits_for_rows,
)

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

    assert is_invalid(world.run(ping_message("seven")))
    assert dynamo.calls.attempts == []
    assert is_finished(world.run(ping_message()))
    assert dynamo.calls.attempts == [CLAIM, END]
    assert is_duplicate(world.run(ping_message()))
    assert dynamo.calls.attempts == [CLAIM, END, CLAIM]


@pytest.mark.parametrize("declines", [False, True])
def test_payment_adds_one_read_and_one_write(dynamo: DynamoFixture, *, declines: bool) -> None:
    world = payment_world(dynamo)
    world.payments.declines = declines

    assert (is_failed if declines else is_finished)(world.run(charge_message()))
    assert dynamo.calls.attempts == [READ_ORDER, CLAIM, SAVE_REFERENCE, END_WITH_ORDER]
    dynamo.calls.reset()
    assert is_duplicate(world.run(charge_message()))
    assert dynamo.calls.attempts == [READ_ORDER, CLAIM]


def test_conflict_takes_two_reads_and_invalid_message_none(dynamo: DynamoFixture) -> None:
    world = payment_world(dynamo)
    assert is_invalid(world.run(charge_message(card="4242")))
    assert dynamo.calls.attempts == []
    assert is_conflict(world.run(charge_message(amount=1)))
    assert dynamo.calls.attempts == [READ_ORDER, "GetItem"]


def test_early_message_takes_two_writes_and_its_duplicate_one(dynamo: DynamoFixture) -> None:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    assert waits_for_rows(world.run(charge_message()))
    assert dynamo.calls.attempts == [READ_ORDER, "PutItem", "UpdateItem"]
    dynamo.calls.reset()
    assert waits_for_rows(world.run(charge_message()))
    assert dynamo.calls.attempts == [READ_ORDER, "PutItem"]
