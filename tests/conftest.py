"""Engines and tables for every suite; sockets reach this machine only."""

import gc
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # it ships no types
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # as above
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # as above

import tests.support.parsed_once  # noqa: F401  # hundreds of sessions use the same services
from oncely_local.engine import HOST
from tests.support import engines
from tests.support.dynamo import NO_PROFILE, DynamoFixture
from tests.support.published_specs import compare_exchanges

_SOCKET_FIXTURES = frozenset({"ministack", "dynamodb_local", "dynamo", "place"})


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # untyped, as above
    """Runs tests that share something expensive on one worker, so that it is made once.

    The marker `xdist_group` would do the same, but xdist 3.8 ignores it with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = PurePosixPath(nodeid.partition("::")[0])
        match module.parent.name, module.name:
            case ("infra", _) | ("e2e", "test_deploying.py" | "test_local.py"):
                return "synthesized stacks"
            case "e2e", _:
                return "deployed stack"
            case "faults", _:
                return nodeid  # they share nothing, and one module would take long
            case _:
                return str(module)

    def _reschedule(self, node: WorkerController) -> None:
        """Forget finished groups first: xdist counts through all of them after every test."""
        assigned = self.assigned_work[node]
        for group in [name for name, one in assigned.items() if all(one.values())]:
            del assigned[group]
        super()._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_collection_finish() -> None:
    """Leave what was imported out of later garbage collections, which take 7 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def pytest_itemcollected(item: pytest.Item) -> None:
    if _SOCKET_FIXTURES.intersection(_fixtures(item)):
        item.add_marker(pytest.mark.allow_hosts([HOST]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Correct the random order: modules marked `in_order` keep theirs, and `last` comes last."""
    _restore_order(items)
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


def _fixtures(item: pytest.Item) -> Collection[str]:
    names: Collection[str] = getattr(item, "fixturenames", ())
    return names


def _restore_order(items: list[pytest.Item]) -> None:
    """Put the tests of each module marked `in_order` back into the order of their file."""
    modules: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        if item.get_closest_marker("in_order"):
            modules.setdefault(item.location[0], []).append(place)
    for places in modules.values():
        written = sorted((items[place] for place in places), key=_position_in_file)
        for place, item in zip(places, written, strict=True):
            items[place] = item


def _position_in_file(item: pytest.Item) -> tuple[int, list[int]]:
    parameters = getattr(item, "callspec", None)
    return item.location[1] or 0, list(parameters.indices.values()) if parameters else []


@pytest.fixture
def published_specs() -> Iterator[None]:
    """Compare requests to models of providers, and their responses, with the vendors' specs."""
    with compare_exchanges() as comparison:
        yield
    assert not comparison.unknown, "\n".join(sorted(comparison.unknown))


@pytest.fixture
def no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the AWS profile of the environment from the tests."""
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
    """The address of DynamoDB Local, one for all tests."""
    with engines.dynamodb_local(tmp_path_factory.mktemp("dynamodb") / "engine.log") as url:
        yield url


@pytest.fixture
def moto() -> Iterator[str]:
    """The address of a DynamoDB in this process, gone after the test."""
    with engines.moto() as url:
        yield url


@pytest.fixture
def dynamo(no_profile: None, ministack: str) -> Iterator[DynamoFixture]:
    """New tables on an engine with real races, retries and transactions."""
    tables = DynamoFixture(ministack)
    yield tables
    tables.close()
