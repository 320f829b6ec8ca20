"""The conformance suites: each test runs once on each engine."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from oncely.contracts.job import providers_of
from oncely.core.store import JobStore
from oncely.jobs.payment_charge import PaymentCharge
from oncely.plugins.provider import AnyProvider
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.wire import WireClients
from tests.conformance import twin
from tests.conformance.archive_harness import ArchiveHarness
from tests.conformance.payment_harnesses import PaymentHarness, payment_harness
from tests.conformance.store_fixtures import StoreFixture, store_fixture
from tests.support.dynamo import DynamoFixture, MemoryDynamoFixture, WireDynamoFixture
from tests.support.engines import ALL_ENGINES, EngineKind
from tests.support.erasing import s3_client


@pytest.fixture(autouse=True)
def _published_specs(published_specs: None) -> None:
    """Compare every exchange with a model of a provider with the vendor's description."""


@pytest.fixture(params=ALL_ENGINES)
def db(request: pytest.FixtureRequest, no_profile: None) -> Iterator[StoreFixture]:
    with tables_for(request) as tables:
        yield store_fixture(request.param, tables)


@pytest.fixture
def store(db: StoreFixture) -> JobStore:
    return db.store


@pytest.fixture(params=ALL_ENGINES)
def dynamo(request: pytest.FixtureRequest, no_profile: None) -> Iterator[DynamoFixture]:
    """What only a table can show: its attributes, and the number of requests."""
    with tables_for(request) as tables:
        yield tables


@pytest.fixture(params=["memory", "wire", "ministack"])
def bucket(request: pytest.FixtureRequest, no_profile: None) -> Iterator[ArchiveHarness]:
    """A bucket with versions: in memory, the same behind botocore, and of an engine."""
    if request.param == "ministack":
        with closing(s3_client(request.getfixturevalue("ministack"))) as client:
            yield ArchiveHarness(client)
        return
    account = MemoryAws(now=lambda: datetime.now(UTC))
    clients = WireClients(account) if request.param == "wire" else account.clients
    yield ArchiveHarness(clients.s3, account)


@pytest.fixture(scope="session")
def twin_engine(ministack: str) -> Iterator[DynamoFixture]:
    """A real engine that DynamoDB in memory is compared with."""
    with closing(DynamoFixture(ministack, name=twin.NAME)) as tables:
        yield tables


@pytest.fixture(params=["in process", "over HTTP"])
def rig(request: pytest.FixtureRequest, plugin: AnyProvider) -> Iterator[PaymentHarness]:
    with payment_harness(plugin, in_process=request.param == "in process") as made:
        yield made


@pytest.fixture(params=providers_of([PaymentCharge]), ids=lambda plugin: plugin.name)
def plugin(request: pytest.FixtureRequest) -> AnyProvider:
    """Each payment provider that the job can use."""
    found: AnyProvider = request.param
    return found


def tables_for(request: pytest.FixtureRequest) -> closing[DynamoFixture]:
    kind: EngineKind = request.param
    if kind is EngineKind.MEMORY:
        return closing(MemoryDynamoFixture())
    if kind is EngineKind.WIRE:
        return closing(WireDynamoFixture())
    url = request.getfixturevalue(kind.name.lower())
    return closing(DynamoFixture(url, on_first_use=True))
