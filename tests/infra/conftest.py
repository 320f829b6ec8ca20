"""The production stack, synthesized once for all tests of its template."""

import pytest

from infra.layers import LayerError, Target, build
from tests.infra.assembly import Assembly
from tests.support.engines import missing


@pytest.fixture(scope="session")
def built_layers() -> None:
    """`make test` built them; a bare pytest does it here, which needs the package index once."""
    try:
        tuple(build((Target.lambda_(), Target.this_machine())))
    except LayerError as error:
        missing(str(error))


@pytest.fixture(scope="session")
def prod(built_layers: None, tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """The stack as it goes to production."""
    return Assembly.of(
        tmp_path_factory.mktemp("prod"),
        stage="prod",
        alert_email="ops@example.com",
        sender_address="Shop <receipts@example.com>",
    )
