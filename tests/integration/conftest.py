"""The worker over real sockets, with its setup complete."""

from collections.abc import Iterator

import pytest

from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack
from tests.support.shipped_sandbox import ShippedSandbox
from tests.support.worker import WorkerHarness, worker_harness


@pytest.fixture(autouse=True)
def _published_specs(published_specs: None) -> None:
    """Compare every exchange with a model of a provider with the vendor's description."""


@pytest.fixture
def rig(dynamo: DynamoFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerHarness]:
    with worker_harness(dynamo, monkeypatch) as stage:
        stage.put_secret()
        yield stage


@pytest.fixture
def world(rig: WorkerHarness) -> InMemoryStack:
    world = rig.world()
    world.add_order()
    return world


@pytest.fixture
def sandbox() -> Iterator[ShippedSandbox]:
    with ShippedSandbox() as running:
        yield running
