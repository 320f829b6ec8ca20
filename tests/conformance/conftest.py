"""The conformance suites: each test runs once on each engine."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from oncely.contract import providers_of
from oncely.jobs.payment_charge import PaymentCharge
from oncely.ports import JobStore
from oncely.provider import AnyProvider
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
    """What only a table can show: its attributes, and the number of requests."""
    with tables_for(request) as tables:
        yield tables


@pytest.fixture(params=["fake", "sandbox"])
def rig(request: pytest.FixtureRequest, plugin: AnyProvider) -> Iterator[PaymentHarness]:
    with payment_harness(plugin, fake=request.param == "fake") as made:
        yield made


@pytest.fixture(params=providers_of([PaymentCharge]), ids=lambda plugin: plugin.name)
def plugin(request: pytest.FixtureRequest) -> AnyProvider:
    """Each payment provider that the job can use."""
    found: AnyProvider = request.param
    return found


def tables_for(request: pytest.FixtureRequest) -> closing[DynamoFixture]:
    kind: EngineKind = request.param
    url = request.getfixturevalue(kind.name.lower())
    return closing(DynamoFixture(url, on_first_use=True))
