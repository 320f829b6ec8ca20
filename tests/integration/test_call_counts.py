"""What a job costs at DynamoDB: two calls of the engine's for a new one, one for a duplicate."""

from oncely.services.outcomes import Duplicate, Finished, Invalid
from tests.integration.ping import Ping, ping
from tests.support.dynamo import Dynamo
from tests.support.world import World, charge

READ_ORDER = "GetItem"
CLAIM = "UpdateItem"
SAVE_REFERENCE = "UpdateItem"
END = "UpdateItem"
END_WITH_ORDER = "TransactWriteItems"


def pings(dynamo: Dynamo) -> World:
    return World(store=dynamo.store(), rows=dynamo.rows(), contracts=(Ping,))


def payments(dynamo: Dynamo) -> World:
    world = World(store=dynamo.store(), rows=dynamo.rows())
    world.add_order()
    return world


def test_new_job_takes_two_calls(dynamo: Dynamo) -> None:
    outcome = pings(dynamo).run(ping())

    assert isinstance(outcome, Finished)
    assert dynamo.calls.tries == [CLAIM, END]


def test_duplicate_takes_one_call(dynamo: Dynamo) -> None:
    world = pings(dynamo)
    world.run(ping())
    dynamo.calls.forget()

    outcome = world.run(ping())

    assert isinstance(outcome, Duplicate)
    assert dynamo.calls.tries == [CLAIM]


def test_invalid_message_makes_no_call(dynamo: Dynamo) -> None:
    outcome = pings(dynamo).run(ping("seven"))

    assert isinstance(outcome, Invalid)
    assert dynamo.calls.tries == []


def test_payment_adds_one_read_and_one_write(dynamo: Dynamo) -> None:
    outcome = payments(dynamo).run(charge())

    assert isinstance(outcome, Finished)
    assert dynamo.calls.tries == [READ_ORDER, CLAIM, SAVE_REFERENCE, END_WITH_ORDER]


def test_declined_payment_takes_same_calls(dynamo: Dynamo) -> None:
    world = payments(dynamo)
    world.payments.declines = True

    world.run(charge())

    assert dynamo.calls.tries == [READ_ORDER, CLAIM, SAVE_REFERENCE, END_WITH_ORDER]


def test_duplicate_payment_takes_one_read_and_one_claim(dynamo: Dynamo) -> None:
    world = payments(dynamo)
    world.run(charge())
    dynamo.calls.forget()

    outcome = world.run(charge())

    assert isinstance(outcome, Duplicate)
    assert dynamo.calls.tries == [READ_ORDER, CLAIM]


def test_mismatched_amount_takes_one_read(dynamo: Dynamo) -> None:
    world = payments(dynamo)

    world.run(charge(amount=1))

    assert dynamo.calls.tries == [READ_ORDER]


def test_invalid_payment_message_makes_no_call(dynamo: Dynamo) -> None:
    outcome = payments(dynamo).run(charge(card="4242"))

    assert isinstance(outcome, Invalid)
    assert dynamo.calls.tries == []
