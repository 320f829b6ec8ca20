"""One synthesized assembly and one deployed stack for all end-to-end tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from oncely_local.cdk_cli import find_cdk
from oncely_local.deploy import bootstrap, cached_assembly, deploy
from oncely_local.engine import Engine, EngineError, start_engine
from tests.e2e import scenarios
from tests.e2e.admin_api import OPERATOR, SUPPORT, with_users
from tests.e2e.admin_browser import AdminBrowser
from tests.e2e.deployed_stack import ENGINE_SETTINGS, StackClient
from tests.support.chromium import running_chromium
from tests.support.engines import skip_or_fail
from tests.support.shipped_sandbox import ShippedSandbox


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def sandbox() -> Iterator[ShippedSandbox]:
    with ShippedSandbox() as running:
        yield running


@pytest.fixture(scope="session")
def engine(sandbox: ShippedSandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A local AWS that enforces policies. It stops before the services that its functions call."""
    if find_cdk() is None:
        skip_or_fail("no CDK command line: `make setup` installs it")
    try:
        running = start_engine(
            tmp_path_factory.mktemp("engine") / "engine.log", settings=ENGINE_SETTINGS
        )
        with running as started:
            yield started
    except EngineError as error:
        skip_or_fail(str(error))


@pytest.fixture(scope="session")
def assembly() -> Path:
    if find_cdk() is None:
        skip_or_fail("no CDK command line: `make setup` installs it")
    return cached_assembly()


@pytest.fixture(scope="session")
def deployment(engine: Engine, sandbox: ShippedSandbox, assembly: Path) -> StackClient:
    """The deployed stack. One job is left for the schedule to find while the tests run."""
    bootstrap(engine.url, assembly)
    deploy(engine.url, assembly, providers=sandbox.url)
    deployed = StackClient(engine, sandbox, assembly)
    deployed.once(scenarios.ambiguous_charge)
    return deployed


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def operator(chromium: Browser, deployment: StackClient) -> AdminBrowser:
    return _signed_in(chromium, deployment, OPERATOR)


@pytest.fixture(scope="session")
def support(chromium: Browser, deployment: StackClient) -> AdminBrowser:
    return _signed_in(chromium, deployment, SUPPORT)


def _signed_in(chromium: Browser, deployment: StackClient, name: str) -> AdminBrowser:
    with_users(deployment)
    service = AdminBrowser(chromium, deployment.outputs["AdminUrl"])
    service.sign_in(name)
    return service


@pytest.fixture(scope="session")
def reference(deployment: StackClient) -> str:
    return str(deployment.once(scenarios.duplicate_message)["provider_ref"])


@pytest.fixture
def admin_browser(support: AdminBrowser) -> Iterator[AdminBrowser]:
    support.open_hash("#/list/needs_review")
    yield support
    # Includes violations of the content security policy.
    assert support.browser_errors == []
    assert "[object " not in support.page.content(), "an element was shown as text"
