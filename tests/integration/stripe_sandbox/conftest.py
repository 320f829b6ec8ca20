"""One sandbox per test, with a clock that the test moves."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
import stripe

from oncely.providers.sandbox import ProviderSandbox
from tests.integration.stripe_sandbox.sandbox_client import (
    CallableClock,
    Intents,
    client_for_sandbox,
)


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    # Stripe's telemetry would write an id into the home folder.
    monkeypatch.setattr(stripe, "enable_telemetry", False)


@pytest.fixture
def clock() -> CallableClock:
    return CallableClock()


@pytest.fixture
def sandbox(clock: CallableClock) -> Iterator[ProviderSandbox]:
    with ProviderSandbox(clock=clock, search_lag=timedelta(minutes=1)) as sandbox:
        yield sandbox


@pytest.fixture
def intents(sandbox: ProviderSandbox) -> Intents:
    return client_for_sandbox(sandbox).v1.payment_intents
