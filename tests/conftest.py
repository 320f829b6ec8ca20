"""Engines and tables for every suite; sockets reach this machine only."""

from collections.abc import Iterator

import pytest

from infra.local.engine import HOST
from tests.support import engines
from tests.support.dynamo import NO_PROFILE, Dynamo

_OVER_SOCKETS = frozenset({"ministack", "dynamodb_local", "dynamo", "place"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _OVER_SOCKETS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.allow_hosts([HOST]))


@pytest.fixture
def no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have an AWS profile: it has no part in them."""
    for name, value in NO_PROFILE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a local AWS, one for all tests."""
    with engines.ministack(tmp_path_factory.mktemp("ministack") / "engine.log") as url:
        yield url


@pytest.fixture(scope="session")
def dynamodb_local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of AWS's own DynamoDB for one machine, one for all tests."""
    with engines.dynamodb_local(tmp_path_factory.mktemp("dynamodb") / "engine.log") as url:
        yield url


@pytest.fixture
def moto() -> Iterator[str]:
    """The address of a DynamoDB in this process, gone after the test."""
    with engines.moto() as url:
        yield url


@pytest.fixture
def dynamo(no_profile: None, ministack: str) -> Iterator[Dynamo]:
    """Fresh tables where races, retries and transactions are real."""
    tables = Dynamo(ministack)
    yield tables
    tables.close()
