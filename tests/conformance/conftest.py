"""The same promises on every engine: each test of a suite runs once on each."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from oncely.ports import JobStore
from tests.conformance.payment_harnesses import PaymentHarness, payment_harness
from tests.conformance.store_fixtures import StoreFixture, dynamodb_fixture, memory_fixture
from tests.support.dynamo import DynamoFixture
from tests.support.engines import DYNAMODB_ENGINES, EngineKind


@pytest.fixture(params=[EngineKind.MEMORY, *DYNAMODB_ENGINES])
def db(request: pytest.FixtureRequest, no_profile: None) -> Iterator[StoreFixture]:
    if request.param is EngineKind.MEMORY:
        yield memory_fixture()
        return
    with tables_for(request) as tables:
        yield dynamodb_fixture(request.param, tables)


@pytest.fixture
def store(db: StoreFixture) -> JobStore:
    return db.store


@pytest.fixture(params=DYNAMODB_ENGINES)
def dynamo(request: pytest.FixtureRequest, no_profile: None) -> Iterator[DynamoFixture]:
    """What only a table can show: its attributes, and how often it was asked."""
    with tables_for(request) as tables:
        yield tables


@pytest.fixture(params=["fake", "stripe"])
def rig(request: pytest.FixtureRequest) -> Iterator[PaymentHarness]:
    with payment_harness(request.param) as made:
        yield made


def tables_for(request: pytest.FixtureRequest) -> closing[DynamoFixture]:
    kind: EngineKind = request.param
    return closing(DynamoFixture(request.getfixturevalue(kind.name.lower())))
