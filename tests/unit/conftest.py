"""Unit tests use no network. In CI they also draw the same examples every time."""

import os

import pytest
from hypothesis import settings
from pytest_socket import socket_allow_hosts

from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault

settings.register_profile("unit", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("unit")


@pytest.fixture(autouse=True)
def _no_network() -> None:
    # The plugin lifts this after each test. Accepting stays possible: the provider sandbox of the
    # deployed stack may serve a sweep from a thread of the same process.
    socket_allow_hosts([])


@pytest.fixture
def world() -> InMemoryStack:
    """A stack with an order that can be charged."""
    world = InMemoryStack()
    world.add_order()
    return world


@pytest.fixture
def unknown_charge(world: InMemoryStack) -> InMemoryStack:
    """The order is charged, but the response was lost: its job is unknown."""
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    return world
