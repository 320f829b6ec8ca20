"""What a job costs at DynamoDB: two calls of the engine's for a new one, one for a duplicate."""

from oncely.run.outcomes import Duplicate, Finished, InvalidMessage
from tests.integration.ping import Ping, ping_message
from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack, charge_message

READ_ORDER = "GetItem"
CLAIM = "UpdateItem"
SAVE_REFERENCE = "UpdateItem"
END = "UpdateItem"
END_WITH_ORDER = "TransactWriteItems"


def ping_world(dynamo: DynamoFixture) -> InMemoryStack:
    return InMemoryStack(store=dynamo.store(), rows=dynamo.rows(), contracts=(Ping,))


def payment_world(dynamo: DynamoFixture) -> InMemoryStack:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    world.add_order()
    return world


def test_new_job_takes_two_calls(dynamo: DynamoFixture) -> None:
    outcome = ping_world(dynamo).run(ping_message())

    assert isinstance(outcome, Finished)
    assert dynamo.calls.attempts == [CLAIM, END]


def test_duplicate_takes_one_call(dynamo: DynamoFixture) -> None:
    world = ping_world(dynamo)
    world.run(ping_message())
    dynamo.calls.reset()

    outcome = world.run(ping_message())

    assert isinstance(outcome, Duplicate)
    assert dynamo.calls.attempts == [CLAIM]


def test_invalid_message_makes_no_call(dynamo: DynamoFixture) -> None:
    outcome = ping_world(dynamo).run(ping_message("seven"))

    assert isinstance(outcome, InvalidMessage)
    assert dynamo.calls.attempts == []


def test_payment_adds_one_read_and_one_write(dynamo: DynamoFixture) -> None:
    outcome = payment_world(dynamo).run(charge_message())

    assert isinstance(outcome, Finished)
    assert dynamo.calls.attempts == [READ_ORDER, CLAIM, SAVE_REFERENCE, END_WITH_ORDER]


def test_declined_payment_takes_same_calls(dynamo: DynamoFixture) -> None:
    world = payment_world(dynamo)
    world.payments.declines = True

    world.run(charge_message())

    assert dynamo.calls.attempts == [READ_ORDER, CLAIM, SAVE_REFERENCE, END_WITH_ORDER]


def test_duplicate_payment_takes_one_read_and_one_claim(dynamo: DynamoFixture) -> None:
    world = payment_world(dynamo)
    world.run(charge_message())
    dynamo.calls.reset()

    outcome = world.run(charge_message())

    assert isinstance(outcome, Duplicate)
    assert dynamo.calls.attempts == [READ_ORDER, CLAIM]


def test_mismatched_amount_takes_one_read(dynamo: DynamoFixture) -> None:
    world = payment_world(dynamo)

    world.run(charge_message(amount=1))

    assert dynamo.calls.attempts == [READ_ORDER]


def test_invalid_payment_message_makes_no_call(dynamo: DynamoFixture) -> None:
    outcome = payment_world(dynamo).run(charge_message(card="4242"))

    assert isinstance(outcome, InvalidMessage)
    assert dynamo.calls.attempts == []
