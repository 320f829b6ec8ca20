"""One sandbox per test, with a clock that the test moves."""

from collections.abc import Iterator

import pytest
import stripe

from tests.integration.stripe_sandbox.sandbox_client import (
    CallableClock,
    Intents,
    client_for_sandbox,
)
from tests.support.shipped_sandbox import ShippedSandbox


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    # Stripe's telemetry would write an id into the home folder.
    monkeypatch.setattr(stripe, "enable_telemetry", False)


@pytest.fixture
def clock() -> CallableClock:
    return CallableClock()


@pytest.fixture
def sandbox(clock: CallableClock) -> Iterator[ShippedSandbox]:
    with ShippedSandbox(clock=clock) as sandbox:
        yield sandbox


@pytest.fixture
def intents(sandbox: ShippedSandbox) -> Intents:
    return client_for_sandbox(sandbox).v1.payment_intents
