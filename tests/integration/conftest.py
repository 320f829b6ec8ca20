"""The worker over real sockets, as it is once its set-up is complete."""

from collections.abc import Iterator

import pytest

from tests.support.dynamo import Dynamo
from tests.support.worker import Stage, staged


@pytest.fixture
def stage(dynamo: Dynamo, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(dynamo, monkeypatch) as stage:
        stage.put_secret()
        yield stage
