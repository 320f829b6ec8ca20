"""Requests of a client through its gate: their slots, and an open circuit."""

from datetime import timedelta

import pytest

from oncely.core.errors import GateClosedError
from oncely.gates.gate import MAX_SLOT_WAIT, MAX_WAIT_IN_EFFECT, SNAPSHOT_AGE, GateState
from oncely.providers.stripe.plugin import STRIPE
from tests.support.fakes import START
from tests.unit.test_gate import EFFECTS, LOOKUPS, GateProcess, process  # noqa: F401  # a fixture


def test_second_request_to_endpoint_takes_another_slot(process: GateProcess) -> None:  # noqa: F811  # the fixture
    requests = process.gate.requests(STRIPE)
    process.enter()
    passed = process.clock.now()
    for endpoint in ("create", "confirm"):
        with requests.request(endpoint, group=EFFECTS) as response:
            response.status = 200
    assert process.clock.now() == passed
    with requests.request("confirm", group=EFFECTS) as response:
        response.status = 200
    assert process.clock.now() - passed == timedelta(milliseconds=40)


def test_request_without_slot_is_not_sent(process: GateProcess) -> None:  # noqa: F811  # the fixture
    process.enter()
    far = START + MAX_SLOT_WAIT + timedelta(minutes=1)
    process.table.lease_until(far, gate="stripe:lookups")
    with (
        pytest.raises(GateClosedError, match="stripe:lookups"),
        process.gate.requests(STRIPE).request("read", group=LOOKUPS),
    ):
        pytest.fail("sent")


def test_effect_does_not_begin_long_after_pause_was_checked(process: GateProcess) -> None:  # noqa: F811  # the fixture
    """The read before it waits for a slot of a busy gate, and a pause may begin in that time."""
    slot = START + MAX_WAIT_IN_EFFECT + timedelta(seconds=1)
    requests = process.gate.requests(STRIPE)
    process.enter()
    process.table.lease_until(slot, gate="stripe:lookups")
    with pytest.raises(GateClosedError), requests.request("read", group=LOOKUPS):
        pytest.fail("sent")
    assert timedelta(seconds=10) > MAX_WAIT_IN_EFFECT + SNAPSHOT_AGE

    process.enter(LOOKUPS)
    for _ in range(2):
        with requests.request("read") as response:
            response.status = 200
    assert process.clock.now() > slot


def test_request_through_open_circuit_is_not_sent(process: GateProcess) -> None:  # noqa: F811  # the fixture
    opened = GateState(opened_at=START, probe_at=START + timedelta(minutes=1))
    process.table.change_circuit("stripe:lookups", opened)
    process.enter()
    with (
        pytest.raises(GateClosedError, match="stripe has not responded since"),
        process.gate.requests(STRIPE).request("read", group=LOOKUPS),
    ):
        pytest.fail("sent")
