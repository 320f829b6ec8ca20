"""The same promises on every engine: each test of a suite runs once on each."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from oncely.ports import JobStore
from tests.contract.places import Place, in_memory, on_dynamodb
from tests.support.dynamo import Dynamo
from tests.support.engines import DYNAMODBS, Kind


@pytest.fixture(params=[Kind.MEMORY, *DYNAMODBS])
def place(request: pytest.FixtureRequest, no_profile: None) -> Iterator[Place]:
    if request.param is Kind.MEMORY:
        yield in_memory()
        return
    with tables_on(request) as tables:
        yield on_dynamodb(request.param, tables)


@pytest.fixture
def store(place: Place) -> JobStore:
    return place.store


@pytest.fixture(params=DYNAMODBS)
def dynamo(request: pytest.FixtureRequest, no_profile: None) -> Iterator[Dynamo]:
    """What only a table can show: its attributes, and how often it was asked."""
    with tables_on(request) as tables:
        yield tables


def tables_on(request: pytest.FixtureRequest) -> closing[Dynamo]:
    kind: Kind = request.param
    return closing(Dynamo(request.getfixturevalue(kind.name.lower())))
