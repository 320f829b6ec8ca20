"""Unit tests reach nothing outside; under CI they also draw the same examples every time."""

import os

import pytest
from hypothesis import settings
from pytest_socket import socket_allow_hosts

settings.register_profile("unit", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("unit")


@pytest.fixture(autouse=True)
def _no_network() -> None:
    # The plugin lifts this after each test. Accepting stays possible: the provider sandbox of the
    # deployed stack may serve a sweep from a thread of the same process.
    socket_allow_hosts([])
